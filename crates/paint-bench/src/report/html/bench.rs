//! The page of a benchmark: one file, no network, dark and light.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::embed::{escape, png_uri};
use super::plot::{Bar, Mark, Series, Stroke, bars, colour, lines};
use super::{CamShot, Shot, analysis, cam, chart, heat, memory, sweep};
use crate::grid::{CellTiming, Results, Row};
use crate::report::Comparison;
use crate::report::notice::{notice, title};
use paint_run::event::BatchDone;

const STYLE: &str = concat!(include_str!("palette.css"), include_str!("bench.css"));
const SCRIPT: &str = include_str!("bench.js");

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

/// Everything a page shows.
#[derive(Debug, Clone, Copy)]
pub struct BenchPage<'a> {
    /// The table.
    pub results: &'a Results,
    /// Beside the paper.
    pub comparisons: &'a [Comparison],
    /// One run of each row, all of the same stream.
    pub traces: &'a [Trace],
    /// Images of the stream.
    pub shots: &'a [Shot],
    /// Where some of the rows looked, after the whole stream.
    pub cams: &'a [CamShot],
    /// Times; none to leave them out.
    pub timings: &'a [CellTiming],
    /// What has to be said first.
    pub warnings: &'a [String],
}

/// A page in the making: sections and the links to them.
struct Sections {
    body: String,
    links: String,
}

impl Sections {
    fn add(&mut self, id: &str, title: &str, text: &str, content: &str) {
        let (title, text) = (escape(title), escape(text));
        let _ = write!(self.links, "<a href=\"#{id}\">{title}</a>");
        let _ = write!(
            self.body,
            "<section id=\"{id}\"><h2>{title}</h2><p>{text}</p>{content}</section>"
        );
    }
}

/// The page.
pub fn bench_page(page: &BenchPage<'_>) -> String {
    let results = page.results;
    let mut out = Sections { body: String::new(), links: String::new() };
    out.add(
        "domains",
        "Accuracy by domain",
        "Percent; the stronger the colour the better, the best of a column underlined. Means are over seeds and orders.",
        &heat::heat_map(results),
    );
    means(page, &mut out);
    for swept in sweep::sweeps(results, page.comparisons) {
        out.add(&swept.id, &swept.title, sweep::TEXT, &swept.svg);
    }
    stream(page, &mut out);
    forgetting(page, &mut out);
    returns(results, &mut out);
    cost(page, &mut out);
    if results.significance.iter().any(|test| test.pairs > 1) {
        out.add(
            "significance",
            "More than chance?",
            SIGNIFICANCE,
            &analysis::significance(results),
        );
    }
    for comparison in page.comparisons {
        let id = format!("paper-{}", comparison.reference.name);
        let content = analysis::beside_the_paper(comparison);
        let title = format!("Beside the paper: {}", comparison.reference.name);
        out.add(&id, &title, comparison.reference.what, &content);
    }
    if let Ok(maps) = cam::cam_table(page.cams)
        && !page.cams.is_empty()
    {
        out.add("maps", "Activation maps", MAPS, &maps);
    }
    if !page.shots.is_empty() {
        out.add(
            "images",
            "Images",
            "The first image of each domain, as the model saw it.",
            &shots(page.shots),
        );
    }
    let protocol = results.protocol.to_toml().unwrap_or_default();
    let protocol = format!(
        "<p>Again with</p><pre>{}</pre><details open><summary>{} <code>{}</code></summary><pre>{}</pre></details>",
        escape(&results.command),
        escape(&results.protocol.name),
        results.hash,
        escape(&protocol)
    );
    out.add("protocol", "Protocol", "Everything that decided these numbers.", &protocol);
    head(page, &out)
}

const MAPS: &str = "Gradient-weighted attention for the predicted class, averaged over blocks, with the state at the end of the stream.";
const SIGNIFICANCE: &str = "Paired t test over runs of the same seed and order, in points of accuracy: the last row against each other one.";

fn head(page: &BenchPage<'_>, sections: &Sections) -> String {
    let results = page.results;
    let title = escape(&title(results));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title} {hash}</title><style>{STYLE}</style></head><body>\
         <header><div><h1>{title}</h1><p>{}</p></div><button id=\"theme\" title=\"dark or light\">◐</button></header>\
         <p class=\"facts\"><span>protocol <code>{hash}</code></span><span>weights {}</span><span>{} rows, {}</span>{images}<span>paint {}</span></p>",
        escape(&results.protocol.what),
        escape(&results.protocol.model.tag),
        results.rows.len(),
        runs(results),
        escape(&results.version),
        hash = results.hash,
        images = results
            .images
            .map_or_else(String::new, |images| format!("<span>{images} images a visit</span>")),
    );
    if let Some(notice) = notice(results) {
        let _ = write!(html, "<div class=\"warning\"><b>{}</b></div>", escape(&notice));
    }
    for warning in page.warnings {
        let _ = write!(html, "<div class=\"warning\">{}</div>", escape(warning));
    }
    html.push_str(&failures(results));
    let _ = writeln!(
        html,
        "<nav>{}</nav><main>{}</main><script>{SCRIPT}</script></body></html>",
        sections.links, sections.body
    );
    html
}

fn failures(results: &Results) -> String {
    let Some(count) = results.failed() else { return String::new() };
    let mut html = format!("<div class=\"warning\"><b>{count}.</b> Means are over the others.<ul>");
    for failure in &results.failures {
        let (run, error) = (escape(&failure.run()), escape(&failure.error));
        let _ = write!(html, "<li>{run}: {error}</li>");
    }
    html + "</ul></div>"
}

fn runs(results: &Results) -> String {
    match results.rows.iter().map(|row| row.accuracy.runs).max().unwrap_or(0) {
        1 => "one run each".into(),
        runs => format!("{runs} runs each"),
    }
}

fn means(page: &BenchPage<'_>, out: &mut Sections) {
    let results = page.results;
    let of_stream = |c: &&Comparison| !c.reference.name.starts_with("antiforget");
    let comparison = page.comparisons.iter().find(of_stream);
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
    let mut text = String::from("The protocol's metric");
    if all.iter().any(|bar| bar.spread.is_some()) {
        text.push_str("; whiskers are one standard deviation over runs");
    }
    if let Some(comparison) = comparison.filter(|_| all.iter().any(|bar| bar.beside.is_some())) {
        let _ = write!(text, "; a tick is the paper's number: {}", comparison.reference.what);
    }
    text.push('.');
    out.add("rows", "Mean accuracy", &text, &bars("mean accuracy", &all));
}

/// Where visits begin in a stream of batches.
fn marks(batches: &[BatchDone]) -> Vec<Mark> {
    let starts = chart::visits(batches).into_iter();
    starts.map(|(at, name)| Mark { at: at as f64, name: name.into() }).collect()
}

fn stream(page: &BenchPage<'_>, out: &mut Sections) {
    let row = |label: &str| page.results.rows.iter().position(|row| row.label == label);
    let series: Vec<Series> = page
        .traces
        .iter()
        .filter_map(|trace| {
            let points = trace.batches.iter().enumerate();
            let points = points.filter_map(|(i, batch)| Some((i as f64, batch.running_accuracy?)));
            let colour = colour(row(&trace.label)?);
            Some(Series {
                label: trace.label.clone(),
                colour,
                stroke: Stroke::Plain,
                points: points.collect(),
            })
        })
        .collect();
    if let Some(first) = page.traces.first().filter(|trace| trace.batches.len() > 1) {
        let text = "Over all images so far, batch by batch: the first seed and order.";
        let svg = lines("running accuracy", &series, &marks(&first.batches));
        out.add("stream", "Running accuracy", text, &svg);
    }
    let prompted = |trace: &&Trace| trace.batches.iter().any(|batch| batch.prompt.is_some());
    let mut html = String::new();
    let prompted: Vec<&Trace> = page.traces.iter().filter(prompted).collect();
    // The first, the last and one between them.
    let shown: BTreeSet<usize> = match prompted.len() {
        0 => BTreeSet::new(),
        n => [0, n / 2, n - 1].into(),
    };
    for trace in shown.into_iter().map(|i| prompted[i]) {
        let _ = write!(html, "<h3>{}</h3>", escape(&trace.label));
        html.push_str(&chart::prompts(&trace.batches));
        if trace.keys.len() > 1 && trace.keys.len() <= 64 {
            html.push_str("<p>Cosine similarity of the keys at the end.</p>");
            html.push_str(&memory::key_similarity(&trace.keys));
        }
    }
    if !html.is_empty() {
        let text = "One cell a batch, one line a prompt (of many, the most used); a ring marks the batch it was made for.";
        out.add("prompts", "Prompts", text, &html);
    }
}

fn forgetting(page: &BenchPage<'_>, out: &mut Sections) {
    const PREVIOUS: &str = "antiforget-previous";
    let of = |fits: fn(&str) -> bool| page.comparisons.iter().find(|c| fits(c.reference.name));
    let previous = of(|name| name == PREVIOUS);
    let paper = of(|name| name.starts_with("antiforget") && name != PREVIOUS);
    let results = page.results;
    let clean = analysis::forgetting(results, paper, "clean accuracy", |g| g.clean);
    let previous = analysis::forgetting(results, previous, "domains so far", |g| g.previous);
    if clean.is_none() && previous.is_none() {
        return;
    }
    let mut html = clean.unwrap_or_default();
    if let Some(previous) = previous {
        html.push_str("<h3>Domains visited so far</h3>");
        html.push_str(&previous);
    }
    html.push_str(&analysis::forgetting_table(results));
    let mut text = if results.visited().count() < results.columns.len() {
        "Clean source images after each domain, as visits of their own with adaptation left on; the means above count these visits too."
    } else {
        "Clean source images after each domain, predicted with the state of that moment."
    }
    .to_owned();
    if paper.is_some() {
        text.push_str(" Broken lines are the paper's.");
    }
    out.add("forgetting", "Forgetting", &text, &html);
}

fn returns(results: &Results, out: &mut Sections) {
    let rounds = |row: &Row| -> Vec<(String, f64)> {
        row.by_round.iter().enumerate().map(|(i, v)| (format!("round {}", i + 1), *v)).collect()
    };
    if let Some(svg) = analysis::steps(results, "accuracy by round", rounds) {
        let text = "Mean accuracy of each round of the same domains: what was learnt should be there at once.";
        out.add("rounds", "When domains return", text, &svg);
    }
    let severities = |row: &Row| -> Vec<(String, f64)> {
        row.by_severity.iter().map(|(s, value)| (format!("severity {s}"), *value)).collect()
    };
    if let Some(svg) = analysis::steps(results, "accuracy by severity", severities) {
        out.add("severities", "By severity", "Mean accuracy over all visits of a severity.", &svg);
    }
}

fn cost(page: &BenchPage<'_>, out: &mut Sections) {
    let mut html = analysis::cost_scatter(page.results, page.timings).unwrap_or_default();
    html.push_str("<div class=\"wide\">");
    html.push_str(&analysis::cost_table(page.results, page.timings));
    html.push_str("</div>");
    let text = "Forward and backward passes an image asks for, numbers that train, calibration, and the prompts that were found again.";
    out.add("cost", "Cost and calibration", text, &html);
}

fn shots(shots: &[Shot]) -> String {
    let mut html = String::from("<div class=\"shots\">");
    for shot in shots {
        let _ = write!(
            html,
            "<figure><img alt=\"{0}\" src=\"{1}\"><figcaption>{0}<br><span>{2}</span></figcaption></figure>",
            escape(&shot.domain),
            png_uri(&shot.image),
            escape(&shot.truth)
        );
    }
    html + "</div>"
}
