//! The leaderboard: rows by accuracy, sorted by any column and narrowed down to what a reader can run.

use std::cmp::Ordering;
use std::fmt::Write as _;

use paint_methods::{Registry, SourceNeed};
use paint_run::escape::html as escape;

use super::cost::ms;
use super::page::Page;
use crate::grid::{CellTiming, Results, Row};
use crate::report::number::{decimal, spread};

/// Fewer rows than this need no leaderboard.
const FEWEST: usize = 3;

/// What a reader can ask of a row: the word in the page, and what is written beside the box.
const FILTERS: [(&str, &str); 3] = [
    ("source-free", "needs no source images"),
    ("forward-only", "no backward pass"),
    ("single-images", "works at batch 1"),
];

pub(super) fn section(results: &Results, timings: &[CellTiming], page: &mut Page) {
    if results.rows.len() < FEWEST || results.mixed {
        return;
    }
    let text = "The best first. Click on a head to sort by it; tick a box to leave rows out. Passes are per image.";
    page.section("leaderboard", "Leaderboard", text, &table(results, timings));
}

fn table(results: &Results, timings: &[CellTiming]) -> String {
    let mut html = String::from("<div class=\"filters\">");
    for (word, label) in FILTERS {
        let _ = write!(html, "<label><input type=\"checkbox\" value=\"{word}\">{label}</label>");
    }
    html.push_str("</div><div class=\"wide\"><table class=\"board\"><thead><tr>");
    let mut heads =
        vec!["row", results.rate.name(), "ECE, %", "forwards", "backwards", "source data"];
    if !timings.is_empty() {
        heads.push("ms / image");
    }
    for head in heads {
        let _ = write!(html, "<th tabindex=\"0\" role=\"button\">{}</th>", escape(head));
    }
    html.push_str("</tr></thead><tbody>");
    for row in ranked(results) {
        line(row, timings, &mut html);
    }
    html + "</tbody></table></div>"
}

/// The rows, the best first.
fn ranked(results: &Results) -> Vec<&Row> {
    let mut rows: Vec<&Row> = results.rows.iter().collect();
    rows.sort_by(|a, b| match (a.accuracy.mean, b.accuracy.mean) {
        (a, b) if a == b => Ordering::Equal,
        (a, b) if results.rate.worse(a.min(b), a.max(b)) == a => Ordering::Greater,
        _ => Ordering::Less,
    });
    rows
}

/// One line. The mean leads to the protocol and the command.
fn line(row: &Row, timings: &[CellTiming], html: &mut String) {
    let methods = Registry::default();
    let entry = methods.find(&row.method).ok();
    let need = entry.map(|entry| entry.needs_source);
    let source = match need {
        Some(SourceNeed::None) => "none",
        Some(SourceNeed::Statistics) => "statistics",
        Some(SourceNeed::Unlabelled) => "images",
        Some(SourceNeed::Labelled) => "labelled images",
        None => "-",
    };
    let cost = row.cost.as_ref();
    let free = need.is_some_and(|need| !need.reads_images());
    let holds = [
        free,
        cost.is_some_and(|cost| cost.backwards == 0.0),
        entry.is_some_and(|entry| entry.works_on_single_images),
    ];
    let words = FILTERS.iter().zip(holds).filter(|(_, holds)| *holds).map(|((word, _), _)| *word);
    let _ = write!(
        html,
        "<tr data-holds=\"{}\"><th>{}<small>{}</small></th><td><a href=\"#protocol\">{}</a></td>",
        words.collect::<Vec<_>>().join(" "),
        escape(&row.label),
        escape(&row.setup()),
        spread(row.accuracy, "±")
    );
    let mut cells = vec![
        decimal(Some(row.ece), 2),
        decimal(cost.map(|cost| cost.forwards), 2),
        decimal(cost.map(|cost| cost.backwards), 2),
        source.to_owned(),
    ];
    if !timings.is_empty() {
        cells.push(decimal(ms(timings, row), 3));
    }
    for cell in cells {
        let _ = write!(html, "<td>{}</td>", escape(&cell));
    }
    html.push_str("</tr>");
}

#[cfg(test)]
mod tests {
    use paint_run::metric::Rate;
    use paint_run::summary::Cost;

    use super::*;
    use crate::report::sample::results;

    #[test]
    fn the_best_is_first_and_rows_say_what_they_need() {
        let mut results = results();
        let mut rmt = results.rows[0].clone();
        (rmt.label, rmt.method) = ("rmt".into(), "rmt".into());
        rmt.accuracy.mean = 99.0;
        rmt.cost = Some(Cost { forwards: 3.0, backwards: 1.0, trainable: 9 });
        results.rows[0].cost = Some(Cost { forwards: 1.0, backwards: 0.0, trainable: 0 });
        results.rows.push(rmt);
        let order = |results: &Results| -> Vec<String> {
            ranked(results).iter().map(|row| row.label.clone()).collect()
        };
        assert_eq!(order(&results), ["rmt", "paint", "source"]);
        assert_eq!(order(&results.shown_as(Rate::Error)), ["rmt", "paint", "source"]);
        let html = table(&results, &[]);
        for part in [
            "<tr data-holds=\"\"><th>rmt",
            "<tr data-holds=\"source-free\"><th>paint",
            "<tr data-holds=\"source-free forward-only single-images\"><th>source",
            "<input type=\"checkbox\" value=\"single-images\">works at batch 1</label>",
            "<td>labelled images</td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("ms / image"));
    }
}
