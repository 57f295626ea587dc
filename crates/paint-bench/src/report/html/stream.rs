//! Along the stream: accuracy so far, and the prompts of each batch.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use paint_run::escape::html as escape;
use paint_run::event::BatchDone;

use super::chart::{Series, colour, lines, matrix, on_page};
use super::page::Page;
use super::prompts;
use super::visits::visits;
use crate::grid::Results;

/// What happened in one run of a row.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The row.
    pub label: String,
    /// Its batches.
    pub batches: Vec<BatchDone>,
    /// The keys of its memory at the end, with the numbers of their prompts.
    pub keys: Vec<(u64, Vec<f32>)>,
}

pub(super) fn sections(results: &Results, traces: &[Trace], page: &mut Page) {
    running_rate(results, traces, page);
    prompt_use(traces, page);
}

fn running_rate(results: &Results, traces: &[Trace], page: &mut Page) {
    let line = |trace: &Trace| {
        let row = results.rows.iter().position(|row| row.label == trace.label)?;
        let points = trace.batches.iter().enumerate();
        let rate = |batch: &BatchDone| batch.running_accuracy.map(|value| results.rate.of(value));
        let points = points.filter_map(|(i, batch)| Some((i as f64, rate(batch)?)));
        Some(Series::new(&trace.label, colour(row), points.collect()))
    };
    let series: Vec<Series> = traces.iter().filter_map(line).collect();
    let Some(first) = traces.first().filter(|trace| trace.batches.len() > 1) else { return };
    // Where rows were stopped at different orders, the names of one would be wrong for the others.
    let mut marks = visits(&first.batches);
    if traces.iter().any(|trace| visits(&trace.batches) != marks) {
        marks.clear();
    }
    let text = "Over all images so far, batch by batch: the first finished run of each row.";
    let title = format!("Running {}", results.rate.name());
    let svg = lines(&title.to_lowercase(), &series, &marks);
    page.section("stream", &title, text, &on_page(&svg));
}

fn prompt_use(traces: &[Trace], page: &mut Page) {
    const MOST_KEYS: usize = 64;
    let prompted = |trace: &&Trace| trace.batches.iter().any(|batch| batch.prompt.is_some());
    let prompted: Vec<&Trace> = traces.iter().filter(prompted).collect();
    let Some(last) = prompted.len().checked_sub(1) else { return };
    // The first, the last and one between them.
    let shown: BTreeSet<usize> = [0, prompted.len() / 2, last].into();
    let mut html = String::new();
    for trace in shown.into_iter().map(|i| prompted[i]) {
        let _ = write!(html, "<h3>{}</h3>", escape(&trace.label));
        html.push_str(&on_page(&prompts::strip(&trace.batches)));
        if (2..=MOST_KEYS).contains(&trace.keys.len()) {
            html.push_str("<p>Cosine similarity of the keys at the end.</p>");
            html.push_str(&on_page(&key_similarity(&trace.keys)));
        }
    }
    page.section("prompts", "Prompts", prompts::TEXT, &html);
}

/// How alike the keys of a prompt memory are.
fn key_similarity(keys: &[(u64, Vec<f32>)]) -> String {
    let names: Vec<String> = keys.iter().map(|(id, _)| id.to_string()).collect();
    matrix("similarity of keys", &names, |i, j| cosine(&keys[i].1, &keys[j].1))
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_like_itself_and_unlike_what_is_orthogonal() {
        assert!((cosine(&[3.0, 4.0], &[6.0, 8.0]) - 1.0).abs() < 1e-12);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
        let svg = key_similarity(&[(0, vec![1.0, 0.0]), (4, vec![0.0, 1.0])]);
        assert!(svg.contains("0 and 4: 0.000"), "{svg}");
    }
}
