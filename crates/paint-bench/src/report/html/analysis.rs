//! The sections of a benchmark's page that look beyond accuracy: forgetting, return, cost, significance, the paper.

use std::fmt::Write as _;

use super::embed::escape;
use super::plot::{Mark, Series, Stroke, colour, lines};
use super::scatter::{Dot, scatter};
use crate::grid::{CellTiming, Results, Row, Spread};
use crate::report::results::decimal;
use crate::report::{Comparison, Matched};
use paint_run::probe::Glance;

fn mean_of<'a>(
    timings: impl Iterator<Item = &'a CellTiming>,
    value: fn(&CellTiming) -> Option<f64>,
) -> Option<f64> {
    Spread::of(&timings.filter_map(value).collect::<Vec<_>>()).map(|spread| spread.mean)
}

/// Milliseconds an image of a row.
fn ms(timings: &[CellTiming], row: &Row) -> Option<f64> {
    mean_of(timings.iter().filter(|t| t.label == row.label), |t| Some(t.ms_per_image))
}

/// A curve of what a probe saw, with the paper's where it has one.
pub(super) fn forgetting(
    results: &Results,
    comparison: Option<&Comparison>,
    title: &str,
    value: fn(&Glance) -> Option<f64>,
) -> Option<String> {
    let mut series: Vec<Series> = Vec::new();
    for (i, row) in results.rows.iter().enumerate() {
        let points: Vec<(f64, f64)> = row
            .glances
            .iter()
            .filter_map(|glance| Some((glance.after as f64, value(glance)?)))
            .collect();
        if !points.is_empty() {
            series.push(Series {
                label: row.label.clone(),
                colour: colour(i),
                stroke: Stroke::Plain,
                points,
            });
        }
    }
    let visits = series.first()?.points.len();
    for row in comparison.iter().flat_map(|comparison| &comparison.reference.rows) {
        let Some(i) = results.rows.iter().position(|ours| ours.label == row.label) else {
            continue;
        };
        if row.cells.len() != visits {
            continue;
        }
        let points = row.cells.iter().enumerate().map(|(at, y)| (at as f64, *y)).collect();
        let label = format!("{} (paper)", row.label);
        series.push(Series { label, colour: colour(i), stroke: Stroke::Dashed, points });
    }
    let names = results.visited().take(visits).enumerate();
    let marks: Vec<Mark> =
        names.map(|(at, name)| Mark { at: at as f64, name: name.into() }).collect();
    Some(lines(title, &series, &marks))
}

/// Start, end and loss of each curve.
pub(super) fn forgetting_table(results: &Results) -> String {
    let mut html = String::from(
        "<table><tr><th>row</th><th>clean, after the first domain</th><th>after the last</th><th>change</th><th>lowest</th><th>domains so far, mean</th></tr>",
    );
    for row in results.rows.iter().filter(|row| !row.glances.is_empty()) {
        let clean: Vec<f64> = row.glances.iter().filter_map(|glance| glance.clean).collect();
        let previous: Vec<f64> = row.glances.iter().filter_map(|glance| glance.previous).collect();
        let cell = |value: Option<f64>| decimal(value, 1);
        let (first, last) = (clean.first().copied(), clean.last().copied());
        let change = first.zip(last).map_or_else(|| "-".into(), |(a, b)| format!("{:+.1}", b - a));
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{change}</td><td>{}</td><td>{}</td></tr>",
            escape(&row.label),
            cell(first),
            cell(last),
            cell(clean.iter().copied().reduce(f64::min)),
            cell(Spread::of(&previous).map(|spread| spread.mean)),
        );
    }
    html + "</table>"
}

/// Accuracy by round or by severity.
pub(super) fn steps(
    results: &Results,
    title: &str,
    values: fn(&Row) -> Vec<(String, f64)>,
) -> Option<String> {
    let mut marks = Vec::new();
    let mut series = Vec::new();
    for (i, row) in results.rows.iter().enumerate() {
        let values = values(row);
        marks = values
            .iter()
            .enumerate()
            .map(|(at, (name, _))| Mark { at: at as f64, name: name.clone() })
            .collect();
        let points: Vec<(f64, f64)> =
            values.iter().enumerate().map(|(at, (_, value))| (at as f64, *value)).collect();
        if points.len() > 1 {
            series.push(Series {
                label: row.label.clone(),
                colour: colour(i),
                stroke: Stroke::Plain,
                points,
            });
        }
    }
    (!series.is_empty()).then(|| lines(title, &series, &marks))
}

/// Accuracy against time.
pub(super) fn cost_scatter(results: &Results, timings: &[CellTiming]) -> Option<String> {
    let dot = |(i, row): (usize, &Row)| {
        let at = (ms(timings, row)?, row.accuracy.mean);
        Some(Dot { label: row.label.clone(), colour: colour(i), at })
    };
    let dots: Vec<Dot> = results.rows.iter().enumerate().filter_map(dot).collect();
    (!dots.is_empty())
        .then(|| scatter("accuracy against time", ["ms per image", "accuracy, %"], &dots))
}

/// What each row costs, and how well it knows what it knows.
pub(super) fn cost_table(results: &Results, timings: &[CellTiming]) -> String {
    let timed = !timings.is_empty();
    let mut html = String::from(
        "<table class=\"costs\"><tr><th>row</th><th>forwards</th><th>backwards</th><th>trainable</th><th>ECE, %</th><th>NLL</th><th>prompts</th><th>matching, batches</th><th>matching, domains</th>",
    );
    html.push_str(if timed { "<th>ms / image</th><th>peak MiB</th></tr>" } else { "</tr>" });
    let cell = |value: Option<f64>, digits: usize| format!("<td>{}</td>", decimal(value, digits));
    for row in &results.rows {
        let cost = row.cost.as_ref();
        let _ = write!(html, "<tr><td>{}</td>", escape(&row.label));
        html.push_str(&cell(cost.map(|cost| cost.forwards), 2));
        html.push_str(&cell(cost.map(|cost| cost.backwards), 2));
        html.push_str(&cell(cost.map(|cost| cost.trainable as f64), 0));
        html.push_str(&cell(Some(row.ece), 2));
        html.push_str(&cell(Some(row.nll), 3));
        html.push_str(&cell(row.prompts, 1));
        html.push_str(&cell(row.matching_per_batch, 1));
        html.push_str(&cell(row.matching_per_domain, 1));
        if timed {
            let own = || timings.iter().filter(|t| t.label == row.label);
            html.push_str(&cell(ms(timings, row), 3));
            html.push_str(&cell(mean_of(own(), |t| t.peak_memory_mib), 0));
        }
        html.push_str("</tr>");
    }
    html + "</table>"
}

/// The tests between rows.
pub(super) fn significance(results: &Results) -> String {
    let mut html = String::from(
        "<table><tr><th>row</th><th>against</th><th>pairs</th><th>difference</th><th>95 %</th><th>p</th></tr>",
    );
    for test in &results.significance {
        let margin = test.margin.map_or_else(|| "-".into(), |margin| format!("± {margin:.2}"));
        let p = decimal(test.p, 4);
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:+.2}</td><td>{margin}</td><td>{p}</td></tr>",
            escape(&test.label),
            escape(&test.against),
            test.pairs,
            test.difference
        );
    }
    html + "</table>"
}

/// Our rows beside the paper's, and what differs.
pub(super) fn beside_the_paper(comparison: &Comparison) -> String {
    let mut html = String::from(
        "<table><tr><th>row</th><th>paper's backbone</th><th>ours</th><th>paper</th><th>difference</th></tr>",
    );
    for row in &comparison.rows {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&row.label),
            escape(row.backbone.as_deref().unwrap_or("")),
            row.cells().join("</td><td>"),
        );
    }
    html.push_str("</table>");
    if comparison.matched().next().is_some() {
        let heads = Matched::HEADS.join("</th><th>");
        let _ = write!(
            html,
            "<h3>Prompts found again</h3><table><tr><th>row</th><th>{heads}</th></tr>"
        );
        for (label, matched) in comparison.matched() {
            let cells = matched.cells().join("</td><td>");
            let _ = write!(html, "<tr><td>{}</td><td>{cells}</td></tr>", escape(label));
        }
        html.push_str("</table>");
    }
    if !comparison.differences.is_empty() {
        html.push_str(
            "<div class=\"warning\"><b>These numbers are not of one protocol.</b> Ours, in place of the paper's:<ul>",
        );
        for difference in &comparison.differences {
            let _ = write!(
                html,
                "<li><code>{}</code>: {} in place of {}</li>",
                escape(&difference.key),
                escape(&difference.ours),
                escape(&difference.theirs)
            );
        }
        html.push_str("</ul></div>");
    }
    html
}
