//! The table of a benchmark as CSV: every figure, unrounded.

use paint_run::escape::csv;

use crate::grid::{Origin, Results, Row};

/// One line for each row.
pub fn results_csv(results: &Results) -> String {
    let mut head: Vec<String> =
        ["protocol", "precision", "label", "method", "preset", "changed"].map(String::from).into();
    head.extend(results.columns.iter().map(|column| csv(&column.name)));
    head.extend(FIGURES.iter().map(|(name, _)| (*name).to_owned()));
    let mut text = head.join(",") + "\n";
    for row in &results.rows {
        let (protocol, precision) = match &row.origin {
            None => (results.hash.as_str(), results.precision_name()),
            Some(Origin { protocol, precision }) => (protocol.as_str(), precision.as_str()),
        };
        let names = [protocol, precision, &row.label, &row.method];
        let mut line: Vec<String> = names.into_iter().map(csv).collect();
        line.push(csv(row.preset.as_deref().unwrap_or_default()));
        line.push(csv(&row.changes()));
        line.extend(row.by_domain.iter().map(|value| number(*value)));
        line.extend(FIGURES.iter().map(|(_, figure)| number(figure(row))));
        text.push_str(&(line.join(",") + "\n"));
    }
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

type Figure = (&'static str, fn(&Row) -> Option<f64>);

/// The columns behind those of the domains.
const FIGURES: [Figure; 11] = [
    ("mean", |row| Some(row.accuracy.mean)),
    ("std", |row| row.accuracy.std),
    ("runs", |row| Some(row.accuracy.runs as f64)),
    ("ece", |row| Some(row.ece)),
    ("nll", |row| Some(row.nll)),
    ("prompts", |row| row.prompts),
    ("matching_per_batch", |row| row.matching_per_batch),
    ("matching_per_domain", |row| row.matching_per_domain),
    ("forwards", |row| row.cost.as_ref().map(|cost| cost.forwards)),
    ("backwards", |row| row.cost.as_ref().map(|cost| cost.backwards)),
    ("trainable", |row| row.cost.as_ref().map(|cost| cost.trainable as f64)),
];

#[cfg(test)]
mod tests {
    use super::super::sample::{hostile, results};
    use super::*;

    #[test]
    fn csv_keeps_every_digit_and_names_the_protocol_and_the_settings() {
        let results = results();
        let csv = results_csv(&results);
        let line = format!(
            "{},f32,paint,paint,paper_adam,eta=0.5,70,58,64,8.48528137423857,2,3,0.5,,,,,,",
            results.hash
        );
        assert!(csv.contains(&line), "{csv}");
    }

    #[test]
    fn hostile_names_change_no_line_and_no_field() {
        let csv = results_csv(&hostile());
        assert_eq!(csv.lines().count(), 3, "{csv}");
        assert!(!csv.contains('\u{1b}') && csv.contains(r"\u{1b}[2J"), "{csv}");
    }
}
