//! One setting at several values: accuracy against the value, ours and the paper's.

use super::plot::{Mark, Series, Stroke, lines};
use crate::grid::Results;
use crate::report::Comparison;

pub(super) const TEXT: &str =
    "Mean accuracy at each value of the setting, all else the same; a broken line is the paper's.";

/// The curve of one setting.
pub(super) struct Swept {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// The setting and the value of a row that is called by them.
fn setting(label: &str) -> Option<(&str, &str)> {
    let (key, value) = label.rsplit_once('=')?;
    value.parse::<f64>().ok()?;
    Some((key, value))
}

/// A curve for each setting that three rows or more have values of, in the order of the rows.
pub(super) fn sweeps(results: &Results, comparisons: &[Comparison]) -> Vec<Swept> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in results.rows.iter().filter_map(|row| setting(&row.label)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter().filter_map(|key| swept(results, comparisons, key)).collect()
}

fn swept(results: &Results, comparisons: &[Comparison], key: &str) -> Option<Swept> {
    let of_key =
        |label: &str| setting(label).filter(|(found, _)| *found == key).map(|(_, v)| v.to_owned());
    let rows: Vec<_> =
        results.rows.iter().filter_map(|row| Some((row, of_key(&row.label)?))).collect();
    if rows.len() < 3 {
        return None;
    }
    let ours = rows.iter().enumerate().map(|(at, (row, _))| (at as f64, row.accuracy.mean));
    let paper = rows.iter().enumerate().filter_map(|(at, (row, _))| {
        let mut all = comparisons.iter().flat_map(|comparison| &comparison.rows);
        Some((at as f64, all.find(|other| other.label == row.label)?.paper))
    });
    let line = |label: &str, stroke, points| Series {
        label: label.into(),
        colour: "var(--s6)".into(),
        stroke,
        points,
    };
    let mut series = vec![line("ours", Stroke::Plain, ours.collect())];
    series.push(line("paper", Stroke::Dashed, paper.collect()));
    series.retain(|one| !one.points.is_empty());
    let marks = rows.iter().enumerate();
    let marks: Vec<Mark> =
        marks.map(|(at, (_, value))| Mark { at: at as f64, name: value.clone() }).collect();
    let title = format!("What {key} does");
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let id = format!("sweep-{}", key.chars().map(plain).collect::<String>());
    Some(Swept { svg: lines(&title, &series, &marks), id, title })
}

#[cfg(test)]
mod tests {
    use super::super::super::results::tests::results;
    use super::*;

    #[test]
    fn a_setting_at_three_values_has_a_curve_and_other_rows_have_none() {
        let mut results = results();
        assert!(sweeps(&results, &[]).is_empty());
        let row = results.rows[0].clone();
        results.rows = ["0.1", "0.2", "0.9"]
            .map(|v| format!("eta={v}"))
            .map(|label| {
                let mut row = row.clone();
                row.label = label;
                row
            })
            .into();
        results.rows.push(row);
        let paper = Comparison::new(&results, "thresholds").unwrap();
        let all = sweeps(&results, &[paper]);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].id.as_str(), all[0].title.as_str()), ("sweep-eta", "What eta does"));
        // Three values, ours and the paper's.
        assert_eq!(all[0].svg.matches("<circle").count(), 6);
        assert!(all[0].svg.contains("<title>paper: 57.33</title>"), "{}", all[0].svg);
    }
}
