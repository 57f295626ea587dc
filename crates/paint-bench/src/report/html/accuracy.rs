//! Accuracy by row: the table whose cells are coloured by value, and a bar for each mean.

use std::fmt::Write as _;

use paint_run::escape::html as escape;

use super::chart::{Bar, bars, colour};
use super::page::Page;
use crate::grid::{Results, Row};
use crate::reference::Measure;
use crate::report::compare::Comparison;
use crate::report::number::spread;

pub(super) fn sections(results: &Results, comparisons: &[Comparison], page: &mut Page) {
    let best = if results.mixed {
        "No best is marked: the rows are not of one protocol."
    } else {
        "The best of a column is underlined."
    };
    let text = format!(
        "In percent; the stronger the colour the better. {best} Means are over seeds and orders."
    );
    let title = format!("{} by domain", results.rate.title());
    page.section("domains", &title, &text, &heat_map(results));
    means(results, comparisons, page);
}

/// The table; the settings of a row stand below its name.
fn heat_map(results: &Results) -> String {
    let values = || results.rows.iter().flat_map(|row| row.by_domain.iter().flatten());
    let (low, high) = values().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let worst = results.rate.worse(low, high);
    let mut html = String::from("<div class=\"wide\"><table class=\"heat\"><thead><tr><th></th>");
    for column in &results.columns {
        let _ = write!(html, "<th class=\"slant\"><span>{}</span></th>", escape(&column.name));
    }
    html.push_str("<th>mean</th></tr></thead><tbody>");
    for (i, row) in results.rows.iter().enumerate() {
        let _ = write!(
            html,
            "<tr><th><span class=\"key\" style=\"background:{}\"></span>{}<small>{}</small></th>",
            colour(i),
            escape(&row.label),
            escape(&row.setup())
        );
        for (column, value) in row.by_domain.iter().enumerate() {
            let Some(value) = value else {
                html.push_str("<td>-</td>");
                continue;
            };
            let share = 8.0 + 62.0 * (value - worst).abs() / (high - low).max(1e-9);
            let is_best = results.best_of(column) == Some(*value);
            let class = if is_best { " class=\"best\"" } else { "" };
            let _ = write!(html, "<td{class} style=\"--v:{share:.0}%\">{value:.1}</td>");
        }
        let is_best = results.best() == Some(row.accuracy.mean);
        let class = if is_best { "mean best" } else { "mean" };
        let _ = write!(html, "<td class=\"{class}\">{}</td></tr>", spread(row.accuracy, "±"));
    }
    html + "</tbody></table></div>"
}

fn means(results: &Results, comparisons: &[Comparison], page: &mut Page) {
    let comparison = comparisons.iter().find(|c| c.reference.measure == Measure::Stream);
    let beside = |row: &Row| {
        let mut rows = comparison?.rows.iter().filter(|other| other.ours.is_some());
        rows.find(|other| other.label == row.label).map(|other| other.paper)
    };
    let bar = |(i, row): (usize, &Row)| Bar {
        label: row.label.clone(),
        colour: colour(i),
        value: row.accuracy.mean,
        spread: row.accuracy.std,
        beside: beside(row),
    };
    let all: Vec<Bar> = results.rows.iter().enumerate().map(bar).collect();
    let mut text = results.protocol.metric.what(results.rate);
    if all.iter().any(|bar| bar.spread.is_some()) {
        text.push_str("; whiskers are one standard deviation over runs");
    }
    if let Some(comparison) = comparison.filter(|_| all.iter().any(|bar| bar.beside.is_some())) {
        let _ = write!(text, "; a tick is the paper's number ({})", comparison.reference.what);
    }
    text.push('.');
    let name = results.rate.name();
    page.section("rows", &format!("Mean {name}"), &text, &bars(&format!("mean {name}"), &all));
}

#[cfg(test)]
mod tests {
    use paint_run::metric::Rate;

    use super::*;
    use crate::report::sample::results;

    #[test]
    fn the_best_of_a_column_is_marked_unless_protocols_are_mixed() {
        let mut results = results();
        let html = heat_map(&results);
        // One in each column, and the mean.
        assert_eq!(html.matches("best\"").count(), 3, "{html}");
        assert!(html.contains("</span>paint<small>paper_adam, eta=0.5</small></th>"), "{html}");
        let (accuracies, errors) = (html, heat_map(&results.shown_as(Rate::Error)));
        // The colours and the marks stay, the numbers change.
        assert_eq!(errors.matches("best\"").count(), 3, "{errors}");
        let shares =
            |html: &str| html.split("--v:").map(|at| at[..2].to_owned()).collect::<Vec<_>>();
        assert_eq!(shares(&errors)[1..], shares(&accuracies)[1..], "{errors}");
        assert!(errors.contains(">30.0</td>") && !errors.contains(">70.0</td>"), "{errors}");
        results.mixed = true;
        assert!(!heat_map(&results).contains("best\""));
    }
}
