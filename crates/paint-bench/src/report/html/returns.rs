//! When domains return, and how much severity matters.

use super::chart::{Mark, Series, colour, lines, on_page};
use super::page::Page;
use crate::grid::{Results, Row};

pub(super) fn sections(results: &Results, page: &mut Page) {
    let rounds = |row: &Row| -> Vec<(String, f64)> {
        row.by_round.iter().enumerate().map(|(i, v)| (format!("round {}", i + 1), *v)).collect()
    };
    let name = results.rate.name();
    if let Some(svg) = steps(results, &format!("{name} by round"), rounds) {
        let text = format!(
            "Mean {name} of each round of the same domains: what was learnt should be there at once."
        );
        page.section("rounds", "When domains return", &text, &svg);
    }
    let severities = |row: &Row| -> Vec<(String, f64)> {
        row.by_severity.iter().map(|(s, value)| (format!("severity {s}"), *value)).collect()
    };
    if let Some(svg) = steps(results, &format!("{name} by severity"), severities) {
        let text = format!("Mean {name} over all visits of a severity.");
        page.section("severities", "By severity", &text, &svg);
    }
}

/// A line for each row that has more than one value.
fn steps(
    results: &Results,
    title: &str,
    values: impl Fn(&Row) -> Vec<(String, f64)>,
) -> Option<String> {
    let mut marks: Vec<Mark> = Vec::new();
    let mut series = Vec::new();
    for (i, row) in results.rows.iter().enumerate() {
        let values = values(row);
        let places = values.iter().enumerate();
        let points: Vec<(f64, f64)> = places.map(|(at, (_, value))| (at as f64, *value)).collect();
        if points.len() > 1 {
            series.push(Series::new(&row.label, colour(i), points));
            let names = values.into_iter().enumerate();
            marks = names.map(|(at, (name, _))| Mark { at: at as f64, name }).collect();
        }
    }
    (!series.is_empty()).then(|| on_page(&lines(title, &series, &marks)))
}
