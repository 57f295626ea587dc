//! The files of a benchmark. All but `timing.jsonl`, and the times on the page, are the same bits for the same grid.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use paint_nn::checkpoint;
use serde::Serialize;

use super::html::{BenchPage, CamMap, CamShot, Shot, Trace, bench_page};
use super::{Comparison, class_name, results_csv, results_latex, results_markdown};
use crate::cam::look;
use crate::grid::{Cell, Grid, Outcome, Results};
use crate::{Error, Result};
use paint_run::checkpoint::read_state;
use paint_run::config::Method;
use paint_run::event::BatchDone;
use paint_run::experiment::{Experiment, write_json, write_text};

/// What is published.
#[derive(Clone, Copy)]
pub struct Publication<'a> {
    /// The grid.
    pub grid: &'a Grid,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Its table.
    pub results: &'a Results,
    /// The paper's tables to stand beside.
    pub references: &'a [&'a str],
    /// Whether the page shows times.
    pub timing: bool,
}

/// Writes `results.jsonl`, `summary.json`, `results.csv`, `results.md`, `results.tex`, `protocol.toml`, `timing.jsonl` and
/// `report.html` into the grid's folder.
pub fn publish(publication: &Publication<'_>) -> Result<()> {
    let Publication { grid, outcome, results, references, timing } = *publication;
    let out = &grid.out;
    paint_files::create_folder(out).map_err(|source| Error::Io {
        action: "create",
        source,
        path: out.clone(),
    })?;
    let compare = |name: &&str| Comparison::new(results, name);
    let comparisons = references.iter().map(compare).collect::<Result<Vec<_>>>()?;
    write_text(&out.join("results.jsonl"), &json_lines(&outcome.results)?)?;
    write_text(&out.join("timing.jsonl"), &json_lines(&outcome.timings)?)?;
    write_json(&out.join("summary.json"), results)?;
    write_text(&out.join("results.csv"), &results_csv(results))?;
    write_text(&out.join("results.md"), &results_markdown(results, &comparisons))?;
    write_text(&out.join("results.tex"), &results_latex(results))?;
    write_text(&out.join("protocol.toml"), &results.protocol.to_toml()?)?;
    let page = BenchPage {
        results,
        comparisons: &comparisons,
        traces: &traces(grid, results)?,
        shots: &shots(grid)?,
        cams: &cams(grid, results)?,
        timings: if timing { &outcome.timings } else { &[] },
        warnings: &[],
    };
    write_text(&out.join("report.html"), &bench_page(&page))
}

fn json_lines(values: &[impl Serialize]) -> Result<String> {
    let mut text = String::new();
    for value in values {
        let line =
            serde_json::to_string(value).map_err(|error| Error::config(error.to_string()))?;
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

/// The first finished run of each row.
fn traces(grid: &Grid, results: &Results) -> Result<Vec<Trace>> {
    let cell = |label: &String| grid.cells.iter().find(|cell| cell.label == *label);
    let cells = results.rows.iter().filter_map(|row| cell(&row.label));
    cells.map(trace).collect()
}

fn trace(cell: &Cell) -> Result<Trace> {
    let folder = &cell.config.out;
    let path = folder.join("events.jsonl");
    let fail = |source| Error::Io { action: "read", source, path: path.clone() };
    let mut batches: Vec<BatchDone> = Vec::new();
    for line in BufReader::new(fs::File::open(&path).map_err(fail)?).lines() {
        let line = line.map_err(fail)?;
        if let Ok(batch) = serde_json::from_str::<BatchDone>(&line) {
            batches.push(batch);
        }
    }
    Ok(Trace { label: cell.label.clone(), batches, keys: keys(&folder.join("state.safetensors"))? })
}

/// The keys of a prompt memory in a saved state, in the order they were made.
fn keys(state: &Path) -> Result<Vec<(u64, Vec<f32>)>> {
    let file = checkpoint::read(state)?;
    let counters: std::collections::BTreeMap<String, u64> = file
        .metadata
        .get("counters")
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let key = |(name, array): (&str, &checkpoint::Array)| {
        let place = name.strip_prefix("memory/")?.strip_suffix("/key")?;
        Some((*counters.get(&format!("memory/{place}/id"))?, array.data.clone()))
    };
    let mut keys: Vec<(u64, Vec<f32>)> = file.iter().filter_map(key).collect();
    keys.sort_by_key(|(id, _)| *id);
    Ok(keys)
}

/// The first image of each domain that the first run visits, at most thirty.
fn shots(grid: &Grid) -> Result<Vec<Shot>> {
    const MOST: usize = 30;
    let Some(cell) = grid.cells.first() else { return Ok(Vec::new()) };
    let mut config = cell.config.clone();
    config.method = Method::source();
    config.probe = None;
    let experiment = Experiment::open(config)?;
    let info = experiment.dataset.info();
    let mut seen: Vec<usize> = Vec::new();
    let mut shots = Vec::new();
    for sample in experiment.stream.batches.iter().flat_map(|batch| &batch.samples) {
        if seen.contains(&sample.domain) || shots.len() == MOST {
            continue;
        }
        seen.push(sample.domain);
        let found = experiment.dataset.sample(sample.domain, sample.index)?;
        let domain = &experiment.dataset.domains()[sample.domain];
        let several = seen.iter().any(|&other| {
            let other = &experiment.dataset.domains()[other];
            other.name == domain.name && other.severity != domain.severity
        });
        let severity = domain.severity.filter(|_| several);
        shots.push(Shot {
            domain: severity
                .map_or_else(|| domain.name.clone(), |s| format!("{} {s}", domain.name)),
            image: found.image,
            truth: found.label.map(|label| class_name(info, label)).unwrap_or_default(),
            predicted: Vec::new(),
        });
    }
    Ok(shots)
}

/// Where the first row, the last and CoTTA between them look at the end of the stream: one image of some domains.
fn cams(grid: &Grid, results: &Results) -> Result<Vec<CamShot>> {
    const IMAGES: usize = 4;
    let rows = &results.rows;
    let chosen = rows.iter().enumerate().filter(|(i, row)| {
        *i == 0 || i + 1 == rows.len() || row.method == "cotta" && rows.len() < 16
    });
    let mut shots: Vec<CamShot> = Vec::new();
    for (_, row) in chosen.take(3) {
        let Some(cell) = grid.cells.iter().find(|cell| cell.label == row.label) else { continue };
        let experiment = Experiment::open(cell.config.clone())?;
        let mut method = experiment.method()?;
        let (state, _) = read_state(&experiment.state_path(), experiment.device())?;
        method.load(&state)?;
        let batches = &experiment.stream.batches;
        // Images spread over the stream, so that they come from several domains.
        let places = (0..IMAGES).filter_map(|i| {
            batches.get(batches.len() * (2 * i + 1) / (2 * IMAGES))?.samples.first().copied()
        });
        let info = experiment.dataset.info();
        for (i, at) in places.enumerate() {
            let Some((sample, map)) = look(&experiment, &mut *method, at, None)? else {
                return Ok(Vec::new());
            };
            if shots.len() <= i {
                shots.push(CamShot::new(&experiment, at, sample));
            }
            let said = class_name(info, map.predicted);
            shots[i].maps.push(CamMap { label: row.label.clone(), map, said });
        }
    }
    Ok(shots)
}
