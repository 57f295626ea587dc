//! What adaptation does to what the model knew before.

use paint_run::metric::Glance;
use paint_run::metric::Rate;

use super::chart::{Mark, Series, Stroke, colour, lines, on_page};
use super::page::Page;
use super::table::Table;
use crate::grid::{Results, Spread};
use crate::reference::Measure;
use crate::report::compare::Comparison;
use crate::report::number::{decimal, signed};

pub(super) fn section(results: &Results, comparisons: &[Comparison], page: &mut Page) {
    let of = |measure| comparisons.iter().find(|c| c.reference.measure == measure);
    let (paper, paper_previous) = (of(Measure::Clean), of(Measure::Previous));
    let title = format!("clean {}", results.rate.name());
    let clean = curves(results, paper, &title, |g| g.clean);
    let title = format!("{title}, learnt prompt");
    let learnt = curves(results, paper, &title, |g| g.learnt);
    let previous = curves(results, paper_previous, "domains so far", |g| g.previous);
    if clean.is_none() && previous.is_none() {
        return;
    }
    let mut html = clean.unwrap_or_default();
    if let Some(learnt) = learnt {
        html.push_str("<h3>With a prompt learnt from clean images</h3>");
        html.push_str(&learnt);
    }
    if let Some(previous) = previous {
        html.push_str("<h3>Domains visited so far</h3>");
        html.push_str(&previous);
    }
    html.push_str(&table(results));
    let mut text = if results.visited().count() < results.columns.len() {
        "Clean source images after each domain, as visits of their own with adaptation left on; the means above count these visits too."
    } else {
        "Clean source images after each domain, predicted with the state of that moment."
    }
    .to_owned();
    if paper.is_some() {
        text.push_str(" Broken lines are the paper's.");
    }
    page.section("forgetting", "Forgetting", &text, &html);
}

/// A curve of what a probe saw, with the paper's where it has one.
fn curves(
    results: &Results,
    comparison: Option<&Comparison>,
    title: &str,
    value: fn(&Glance) -> Option<f64>,
) -> Option<String> {
    let mut series: Vec<Series> = Vec::new();
    for (i, row) in results.rows.iter().enumerate() {
        let seen = row.glances.iter();
        let points: Vec<(f64, f64)> =
            seen.filter_map(|glance| Some((glance.after as f64, value(glance)?))).collect();
        if !points.is_empty() {
            series.push(Series::new(&row.label, colour(i), points));
        }
    }
    let visits = series.first()?.runs[0].len();
    for row in comparison.iter().flat_map(|comparison| &comparison.reference.rows) {
        let ours = results.rows.iter().position(|ours| ours.label == row.label);
        let Some(i) = ours.filter(|_| row.cells.len() == visits) else { continue };
        let cells = row.cells.iter().enumerate();
        let points = cells.map(|(at, y)| (at as f64, results.rate.of(*y))).collect();
        let label = format!("{} (paper)", row.label);
        series.push(Series::new(&label, colour(i), points).stroke(Stroke::Dashed));
    }
    let names = results.visited().take(visits).enumerate();
    let marks: Vec<Mark> =
        names.map(|(at, name)| Mark { at: at as f64, name: name.into() }).collect();
    Some(on_page(&lines(title, &series, &marks)))
}

/// Start, end and loss of each curve.
fn table(results: &Results) -> String {
    let mut heads = vec![
        "row",
        "clean, after the first domain",
        "after the last",
        "change",
        match results.rate {
            Rate::Accuracy => "lowest",
            Rate::Error => "highest",
        },
        "domains so far, mean",
    ];
    let has_learnt =
        results.rows.iter().flat_map(|row| &row.glances).any(|glance| glance.learnt.is_some());
    if has_learnt {
        heads.extend(["clean with a learnt prompt, after the first domain", "after the last"]);
    }
    let mut table = Table::new(heads);
    for row in results.rows.iter().filter(|row| !row.glances.is_empty()) {
        let seen = |value: fn(&Glance) -> Option<f64>| -> Vec<f64> {
            row.glances.iter().filter_map(value).collect()
        };
        let (clean, learnt) = (seen(|glance| glance.clean), seen(|glance| glance.learnt));
        let (first, last) = (clean.first().copied(), clean.last().copied());
        let mut cells = vec![
            row.label.clone(),
            decimal(first, 1),
            decimal(last, 1),
            signed(first.zip(last).map(|(first, last)| last - first), 1),
            decimal(clean.iter().copied().reduce(|a, b| results.rate.worse(a, b)), 1),
            decimal(Spread::of(&seen(|glance| glance.previous)).map(|spread| spread.mean), 1),
        ];
        if has_learnt {
            cells.extend([learnt.first(), learnt.last()].map(|value| decimal(value.copied(), 1)));
        }
        table.row(cells);
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::results;

    #[test]
    fn numbers_of_a_learnt_prompt_stand_beside_the_others_where_there_are_any() {
        let mut results = results();
        let glance = |after, learnt| Glance { after, clean: Some(90.0), learnt, previous: None };
        results.rows[0].glances = vec![glance(0, None), glance(1, None)];
        assert!(!table(&results).contains("learnt"));
        results.rows[1].glances = vec![glance(0, Some(91.0)), glance(1, Some(92.5))];
        let html = table(&results);
        assert!(html.contains("<td>-</td><td>91.0</td><td>92.5</td></tr>"), "{html}");
        assert!(html.contains("<td>-</td><td>-</td><td>-</td></tr>"), "{html}");
        let mut page = Page::new("t", "");
        section(&results, &[Comparison::new(&results, "antiforget").unwrap()], &mut page);
        let html = page.finish();
        assert_eq!(html.matches("With a prompt learnt from clean images").count(), 1);
        let beside = Comparison::new(&results, "antiforget").unwrap();
        assert_eq!(beside.heads().last(), Some(&"ours, learnt prompt"));
        let paint = beside.rows.iter().find(|row| row.label == "paint").unwrap();
        assert_eq!((paint.ours, paint.learnt), (Some(90.0), Some(91.75)));
    }
}
