//! One setting at several values: accuracy against the value, ours and the paper's.

use super::chart::{Mark, Series, Stroke, colour, lines, on_page};
use super::page::Page;
use crate::grid::{Results, Row};
use crate::report::compare::Comparison;

/// Fewer values make no curve.
const VALUES: usize = 3;

/// The one setting that makes a row what it is: its method, its key and its value.
fn setting(row: &Row) -> Option<(&str, &str, f64)> {
    let mut own = row.own.iter();
    match (own.next(), own.next()) {
        (Some((key, value)), None) => Some((&row.method, key, value.as_f64()?)),
        _ => None,
    }
}

/// A curve for each setting that some rows have values of, in the order of the rows.
pub(super) fn sections(results: &Results, comparisons: &[Comparison], page: &mut Page) {
    let mut swept: Vec<(&str, &str)> = Vec::new();
    for (method, key, _) in results.rows.iter().filter_map(setting) {
        if !swept.contains(&(method, key)) {
            swept.push((method, key));
        }
    }
    for (method, key) in swept {
        if let Some(svg) = curve(results, comparisons, (method, key)) {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let id = format!("sweep-{method}-{key}").chars().map(plain).collect::<String>();
            let text = format!(
                "Mean {} at each value of the setting, all else the same; a broken line is the paper's.",
                results.rate.name()
            );
            page.section(&id, &format!("What {key} does"), &text, &on_page(&svg));
        }
    }
}

fn curve(results: &Results, comparisons: &[Comparison], swept: (&str, &str)) -> Option<String> {
    let value = |row: &Row| setting(row).filter(|of| (of.0, of.1) == swept).map(|of| of.2);
    let rows: Vec<(&Row, f64)> =
        results.rows.iter().filter_map(|row| Some((row, value(row)?))).collect();
    if rows.len() < VALUES {
        return None;
    }
    let ours = rows.iter().enumerate().map(|(at, (row, _))| (at as f64, row.accuracy.mean));
    let paper = rows.iter().enumerate().filter_map(|(at, (row, _))| {
        let mut all = comparisons.iter().flat_map(|comparison| &comparison.rows);
        Some((at as f64, all.find(|other| other.label == row.label)?.paper))
    });
    let mut series = vec![Series::new("ours", colour(6), ours.collect())];
    series.push(Series::new("paper", colour(6), paper.collect()).stroke(Stroke::Dashed));
    series.retain(|one| !one.runs[0].is_empty());
    let values = rows.iter().enumerate();
    let marks: Vec<Mark> =
        values.map(|(at, (_, value))| Mark { at: at as f64, name: value.to_string() }).collect();
    Some(lines(&format!("{} by {}", results.rate.name(), swept.1), &series, &marks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::results;

    #[test]
    fn a_setting_at_three_values_has_a_curve_and_other_rows_have_none() {
        let mut results = results();
        assert!(curve(&results, &[], ("paint", "eta")).is_none());
        let row = results.rows[1].clone();
        let swept = [0.1, 0.2, 0.9].map(|value| Row {
            label: format!("eta={value}"),
            own: [("eta".to_owned(), value.into())].into(),
            ..row.clone()
        });
        results.rows = swept.into();
        results.rows.push(row);
        let paper = Comparison::new(&results, "thresholds").unwrap();
        let mut page = Page::new("t", "");
        sections(&results, &[paper], &mut page);
        let html = page.finish();
        let section = "<section id=\"sweep-paint-eta\"><h2>What eta does</h2>";
        assert_eq!(html.matches(section).count(), 1);
        // Three values, ours and the paper's.
        assert_eq!(html.matches("<circle").count(), 6);
        assert!(html.contains("<title>paper: 57.33</title>"), "{html}");
    }
}
