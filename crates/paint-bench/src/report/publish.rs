//! The files of a benchmark. All but `timing.jsonl`, and the times on the page, are the same bits for the same grid.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use paint_run::checkpoint::read_state;
use paint_run::config::Method;
use paint_run::event::BatchDone;
use paint_run::experiment::{Experiment, STATE_FILE, write_json, write_text};
use paint_run::metric::Rate;
use paint_run::{Error, Result};
use paint_tensor::{Device, Tensor};
use serde::Serialize;

use super::compare::Comparison;
use super::csv::results_csv;
use super::html::{BenchPage, CamShot, Shot, Trace, bench_page};
use super::latex::results_latex;
use super::markdown::results_markdown;
use crate::grid::{Cell, Grid, Looks, Outcome, Results, Row};

/// What is published.
#[derive(Clone, Copy)]
pub struct Publication<'a> {
    /// The grid.
    pub grid: &'a Grid,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Its table.
    pub results: &'a Results,
    /// The paper's tables and figures to compare with.
    pub references: &'a [&'a str],
    /// Whether the page shows times.
    pub timing: bool,
    /// Whether tables and the page show accuracies or errors; files of data hold accuracies.
    pub rate: Rate,
}

/// Writes `results.jsonl`, `summary.json`, `results.csv`, `results.md`, `results.tex`, `protocol.toml`,
/// `timing.jsonl` and `report.html` into the grid's folder.
pub fn publish(publication: &Publication<'_>) -> Result<()> {
    let Publication { grid, outcome, results, references, timing, rate } = *publication;
    let out = &grid.out;
    paint_files::create_folder(out).map_err(|source| Error::Io {
        action: "create",
        source,
        path: out.clone(),
    })?;
    let shown = results.shown_as(rate);
    let compare = |name: &&str| Comparison::new(&shown, name);
    let comparisons = references.iter().map(compare).collect::<Result<Vec<_>>>()?;
    write_text(&out.join("results.jsonl"), &json_lines(&outcome.results)?)?;
    write_text(&out.join("timing.jsonl"), &json_lines(&outcome.timings)?)?;
    write_json(&out.join("summary.json"), results)?;
    write_text(&out.join("results.csv"), &results_csv(results))?;
    write_text(&out.join("results.md"), &results_markdown(&shown, &comparisons))?;
    write_text(&out.join("results.tex"), &results_latex(&shown))?;
    write_text(&out.join("protocol.toml"), &results.protocol.to_toml()?)?;
    let mut left_out = Vec::new();
    let traces = or_left_out(
        traces(grid, outcome, results),
        &format!("Running {}", rate.name()),
        &mut left_out,
    );
    let pictures = or_left_out(Pictures::new(publication), "Images and maps", &mut left_out);
    let page = BenchPage {
        results: &shown,
        comparisons: &comparisons,
        traces: &traces,
        shots: &pictures.shots,
        cams: &pictures.cams,
        timings: if timing { &outcome.timings } else { &[] },
        warnings: &left_out,
    };
    write_text(&out.join("report.html"), &bench_page(&page))
}

/// A part of the page, or nothing and a sentence on why: a page is not lost with one of its parts.
fn or_left_out<T: Default>(part: Result<T>, what: &str, left_out: &mut Vec<String>) -> T {
    part.unwrap_or_else(|error| {
        left_out.push(format!("{what} left out: {error}"));
        T::default()
    })
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

/// The cells that finished, in the order of the grid.
fn finished<'a>(grid: &'a Grid, outcome: &Outcome) -> impl Iterator<Item = &'a Cell> {
    let ids: BTreeSet<String> = outcome.results.iter().map(|result| result.cell.clone()).collect();
    grid.cells.iter().filter(move |cell| ids.contains(&cell.id))
}

/// The first finished run of each row.
fn traces(grid: &Grid, outcome: &Outcome, results: &Results) -> Result<Vec<Trace>> {
    let cell = |row: &Row| finished(grid, outcome).find(|cell| cell.label == row.label);
    results.rows.iter().filter_map(cell).map(trace).collect()
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
    Ok(Trace { label: cell.label.clone(), batches, keys: keys(&folder.join(STATE_FILE)) })
}

/// The keys of a prompt memory in a saved state, in the order they were made. None if the state is damaged or was
/// written by an earlier version: a picture is no reason to lose a report.
fn keys(state: &Path) -> Vec<(u64, Vec<f32>)> {
    let Ok(state) = read_state(state, &Device::cpu()) else { return Vec::new() };
    let memory = state.part("memory");
    let key = |(name, tensor): (&String, &Tensor)| {
        let place = name.strip_suffix("/key")?;
        Some((*memory.counters.get(&format!("{place}/id"))?, tensor.to_vec().ok()?))
    };
    let mut keys: Vec<(u64, Vec<f32>)> = memory.tensors.iter().filter_map(key).collect();
    keys.sort_by_key(|(id, _)| *id);
    keys
}

/// Images of one stream, and where some rows looked in them.
#[derive(Default)]
struct Pictures {
    shots: Vec<Shot>,
    cams: Vec<CamShot>,
}

impl Pictures {
    /// Of the first order and seed among those that most rows finished.
    fn new(publication: &Publication<'_>) -> Result<Self> {
        let Publication { grid, outcome, results, .. } = *publication;
        let mut runs: Vec<Vec<&Cell>> = Vec::new();
        for cell in finished(grid, outcome) {
            let same = |run: &&mut Vec<&Cell>| {
                (&run[0].order, run[0].config.seed) == (&cell.order, cell.config.seed)
            };
            match runs.iter_mut().find(same) {
                Some(run) => run.push(cell),
                None => runs.push(vec![cell]),
            }
        }
        let Some(run) = runs.into_iter().rev().max_by_key(Vec::len) else {
            return Ok(Self::default());
        };
        let mut config = run[0].config.clone();
        config.method = Method::source();
        config.source = None;
        let experiment = Experiment::open(config.on_cpu())?;
        Ok(Self { shots: shots(&experiment)?, cams: cams(&experiment, &run, results)? })
    }
}

/// The first image of each domain, at most thirty.
fn shots(experiment: &Experiment) -> Result<Vec<Shot>> {
    const MOST: usize = 30;
    let (info, domains) = (experiment.dataset.info(), experiment.dataset.domains());
    let mut seen: Vec<usize> = Vec::new();
    let mut shots = Vec::new();
    for sample in experiment.stream.batches.iter().flat_map(|batch| &batch.samples) {
        if seen.contains(&sample.domain) || shots.len() == MOST {
            continue;
        }
        seen.push(sample.domain);
        let found = experiment.dataset.sample(sample.domain, sample.index)?;
        let domain = &domains[sample.domain];
        let several = seen.iter().any(|&other| {
            domains[other].name == domain.name && domains[other].severity != domain.severity
        });
        let severity = domain.severity.filter(|_| several);
        shots.push(Shot {
            domain: severity
                .map_or_else(|| domain.name.clone(), |s| format!("{} {s}", domain.name)),
            image: found.image,
            truth: found.label.map(|label| info.class_name(label)).unwrap_or_default(),
            predicted: Vec::new(),
        });
    }
    Ok(shots)
}

/// Where the first row, the last and the best of the others looked at the end of the stream.
fn cams(experiment: &Experiment, run: &[&Cell], results: &Results) -> Result<Vec<CamShot>> {
    let rows = &results.rows;
    let best_between = (1..rows.len().saturating_sub(1))
        .rev()
        .max_by(|&a, &b| rows[a].accuracy.mean.total_cmp(&rows[b].accuracy.mean));
    let chosen = [Some(0), best_between, rows.len().checked_sub(1)];
    let chosen: BTreeSet<usize> = chosen.into_iter().flatten().collect();
    let mut shots: Vec<CamShot> = Vec::new();
    for label in chosen.into_iter().filter_map(|row| Some(&rows.get(row)?.label)) {
        let Some(cell) = run.iter().find(|cell| cell.label == *label) else { continue };
        for (i, look) in Looks::read(&cell.config.out)?.iter().enumerate() {
            if shots.len() <= i {
                shots.push(CamShot::new(experiment, look.at())?);
            }
            shots[i].add(experiment, label, look.maps.clone());
        }
    }
    Ok(shots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::tests::{place, protocol};
    use crate::grid::{Failure, Look, Variant, execute};

    fn finished_grid(out: &Path) -> (Grid, Outcome) {
        let place = place(out);
        let resolved = protocol().resolve(&place).unwrap();
        let variants = vec![Variant::plain("source"), Variant::plain("paint")];
        let grid = Grid::new(resolved, variants, &place).unwrap();
        let outcome = execute(&grid, 1, &std::sync::Arc::default(), &|_| {});
        assert_eq!((outcome.results.len(), outcome.failures.len()), (4, 0));
        (grid, outcome)
    }

    fn published(grid: &Grid, outcome: &Outcome) -> String {
        let results = Results::new(grid, outcome, "paint bench");
        let (references, rate) = (&["table1"][..], Rate::Accuracy);
        publish(&Publication { grid, outcome, results: &results, references, timing: true, rate })
            .unwrap();
        fs::read_to_string(grid.out.join("report.html")).unwrap()
    }

    #[test]
    fn a_report_survives_the_failure_of_any_cells() {
        let temp = tempfile::tempdir().unwrap();
        let (grid, whole) = finished_grid(&temp.path().join("grid"));
        let away = temp.path().join("away");
        for subset in 0..1_u32 << grid.cells.len() {
            let failed = |at: usize| subset >> at & 1 == 1;
            let mut outcome = Outcome::default();
            fs::create_dir_all(&away).unwrap();
            for (at, cell) in grid.cells.iter().enumerate() {
                if failed(at) {
                    // A cell that failed left no files to read.
                    fs::rename(&cell.config.out, away.join(&cell.id)).unwrap();
                    outcome.failures.push(Failure {
                        cell: cell.id.clone(),
                        label: cell.label.clone(),
                        order: None,
                        seed: cell.config.seed,
                        error: "the disk is full".into(),
                    });
                } else {
                    outcome.results.push(whole.results[at].clone());
                    outcome.timings.push(whole.timings[at].clone());
                }
            }
            let page = published(&grid, &outcome);
            let rows = [0..2, 2..4].map(|mut cells| !cells.all(failed));
            let told = outcome.failures.len();
            assert_eq!(page.matches("the disk is full").count(), told, "{subset:b}");
            assert_eq!(page.contains("of 4 runs failed"), told > 0, "{subset:b}");
            assert!(!page.contains("left out"), "{subset:b}");
            for (label, finished) in ["source", "paint"].into_iter().zip(rows) {
                let named = page.contains(&format!("</span>{label}<small>"));
                assert_eq!(named, finished, "{label} {subset:b}");
            }
            for section in ["stream", "images", "maps"] {
                let there = page.contains(&format!("<section id=\"{section}\">"));
                assert_eq!(there, rows != [false; 2], "{section} {subset:b}");
            }
            let prompts = page.contains("<section id=\"prompts\">");
            assert_eq!(prompts, rows[1], "{subset:b}");
            for file in ["results.md", "results.csv", "results.tex", "summary.json"] {
                assert!(grid.out.join(file).exists(), "{file} {subset:b}");
            }
            for cell in fs::read_dir(&away).unwrap() {
                let cell = cell.unwrap();
                fs::rename(cell.path(), grid.out.join("cells").join(cell.file_name())).unwrap();
            }
        }
    }

    #[test]
    fn the_maps_of_a_finished_grid_are_those_its_runs_left() {
        let temp = tempfile::tempdir().unwrap();
        let (mut grid, outcome) = finished_grid(temp.path());
        let page = published(&grid, &outcome);
        assert!(page.contains("<section id=\"maps\">"));
        assert!(page.contains("<th>paint</th><th>paint, clean</th>"));
        let looks = Looks::read(&grid.cells[0].config.out).unwrap();
        let differ =
            |look: &Look| look.maps.clean.as_ref().is_some_and(|map| *map != look.maps.map);
        assert!(looks.iter().all(differ) && looks.iter().count() > 0);
        // No method can be built any more.
        grid.cells.iter_mut().for_each(|cell| cell.config.method.name = "gone".into());
        assert!(published(&grid, &outcome) == page);
    }

    #[test]
    fn a_part_that_cannot_be_read_is_left_out_with_the_reason() {
        let temp = tempfile::tempdir().unwrap();
        let (grid, outcome) = finished_grid(temp.path());
        fs::remove_file(grid.cells[0].config.out.join("events.jsonl")).unwrap();
        let page = published(&grid, &outcome);
        assert!(page.contains("Running accuracy left out") && page.contains("events.jsonl"));
        assert!(page.contains("<section id=\"maps\">") && !page.contains("id=\"stream\""));
    }
}
