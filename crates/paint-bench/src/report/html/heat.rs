//! Accuracy by row and domain as a table whose cells are coloured by value.

use std::fmt::Write as _;

use super::embed::escape;
use super::plot::colour;
use crate::grid::Results;
use crate::report::results::spread;

/// The table; the best of each column is marked.
pub(super) fn heat_map(results: &Results) -> String {
    let values = || results.rows.iter().flat_map(|row| row.by_domain.iter().flatten());
    let (low, high) = values().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let mut html = String::from("<div class=\"wide\"><table class=\"heat\"><thead><tr><th></th>");
    for column in &results.columns {
        let _ = write!(html, "<th class=\"slant\"><span>{}</span></th>", escape(&column.name));
    }
    html.push_str("<th>mean</th></tr></thead><tbody>");
    let best = |column: usize| {
        results.rows.iter().filter_map(|row| row.by_domain[column]).fold(f64::MIN, f64::max)
    };
    let bests: Vec<f64> = (0..results.columns.len()).map(best).collect();
    let best_mean = results.best();
    for (i, row) in results.rows.iter().enumerate() {
        let _ = write!(
            html,
            "<tr><th><span class=\"key\" style=\"background:{}\"></span>{}</th>",
            colour(i),
            escape(&row.label)
        );
        for (value, best) in row.by_domain.iter().zip(&bests) {
            let Some(value) = value else {
                html.push_str("<td>-</td>");
                continue;
            };
            let share = (value - low) / (high - low).max(1e-9);
            let class = if value == best { " class=\"best\"" } else { "" };
            let _ =
                write!(html, "<td{class} style=\"--v:{:.0}%\">{value:.1}</td>", 8.0 + 62.0 * share);
        }
        let class = if row.accuracy.mean == best_mean { "mean best" } else { "mean" };
        let _ = write!(html, "<td class=\"{class}\">{}</td></tr>", spread(row.accuracy, "±"));
    }
    html + "</tbody></table></div>"
}
