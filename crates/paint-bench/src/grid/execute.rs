//! Runs the cells of a grid, some at a time. A cell that fails, or even panics, leaves the others alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use paint_methods::Registry;
use paint_run::experiment::{Earlier, Experiment, write_json};
use paint_run::fingerprint::glimpse;
use paint_run::{Error, Event, Result};
use paint_tensor::in_lane;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, run_name};
use super::cell_result::CellResult;
use super::layout::Grid;
use super::looks::Looks;
use super::timing::CellTiming;

/// What happens to a grid; `cell` is a place in [`Grid::cells`].
#[derive(Debug)]
pub enum GridEvent<'a> {
    /// The cell was finished before.
    Found {
        /// The cell.
        cell: usize,
    },
    /// What was saved of the cell is damaged; it begins anew.
    Restarted {
        /// The cell.
        cell: usize,
        /// Which file, and what is wrong with it.
        why: &'a str,
    },
    /// Something happened in the run of a cell.
    Running {
        /// The cell.
        cell: usize,
        /// What happened.
        event: &'a Event,
    },
    /// The cell is finished.
    Done {
        /// The cell.
        cell: usize,
        /// Its result.
        result: &'a CellResult,
    },
    /// The cell failed.
    Failed {
        /// The cell.
        cell: usize,
        /// Why.
        error: &'a str,
    },
}

/// A cell that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The cell.
    pub cell: String,
    /// Its row.
    pub label: String,
    /// Its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Its seed.
    pub seed: u64,
    /// Why it failed.
    pub error: String,
}

impl Failure {
    /// What the run is called.
    pub fn run(&self) -> String {
        run_name(&self.label, self.order.as_deref(), self.seed)
    }
}

/// What came of a grid.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The results of the cells that finished, in the order of the grid.
    pub results: Vec<CellResult>,
    /// The times of those that ran undisturbed, in the order of the grid.
    pub timings: Vec<CellTiming>,
    /// The cells that failed.
    pub failures: Vec<Failure>,
    /// Cells that were not finished, or not begun, because the grid was told to stop.
    pub unfinished: usize,
}

/// How a cell ended; nothing if its worker died.
type End = Option<std::result::Result<CellResult, String>>;

/// Cells to run, of one protocol.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// The cells.
    pub cells: &'a [Cell],
    /// The hash of their protocol.
    pub protocol: &'a str,
    /// The methods that names are looked up among.
    pub methods: &'a Registry,
}

impl<'a> From<&'a Grid> for Work<'a> {
    fn from(grid: &'a Grid) -> Self {
        Self { cells: &grid.cells, protocol: &grid.hash, methods: &grid.methods }
    }
}

/// Runs every cell that is not finished, `jobs` at a time. `tell` hears of everything, from any thread; if it panics,
/// that event is lost and nothing else. Once `stop` is true, cells that run end after their present batch, saved, and
/// no other is begun.
pub fn execute<'a>(
    work: impl Into<Work<'a>>,
    jobs: usize,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> Outcome {
    let work: Work<'a> = work.into();
    let tell: &(dyn Fn(GridEvent<'_>) + Sync) = &|event| {
        let _ = catch_unwind(AssertUnwindSafe(|| tell(event)));
    };
    // Rows of the same settings share their cells, and two workers cannot share a folder.
    let first_of = |cell: &Cell| work.cells.iter().position(|other| other.id == cell.id);
    let firsts: Vec<usize> = work.cells.iter().map(|cell| first_of(cell).unwrap_or(0)).collect();
    let jobs = jobs.clamp(1, work.cells.len().max(1));
    let (next, ends) = (AtomicUsize::new(0), Mutex::new(vec![None; work.cells.len()]));
    let is_stopped = || stop.load(Ordering::Relaxed);
    let run_cells = || {
        while !is_stopped() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = work.cells.get(at) else { return };
            if firsts[at] == at {
                let end = finish(work, at, cell, jobs, stop, tell);
                if end.is_err() && is_stopped() {
                    return;
                }
                announce(at, &end, tell);
                ends.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(end);
            }
        }
    };
    thread::scope(|scope| {
        let run_cells = &run_cells;
        let worker = |lane| scope.spawn(move || in_lane(lane, run_cells));
        let workers: Vec<_> = (0..jobs).map(worker).collect();
        for worker in workers {
            // A worker catches every panic of a run; a cell that it leaves without an end counts as failed.
            let _ = worker.join();
        }
    });
    let mut ends: Vec<End> = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (at, cell) in work.cells.iter().enumerate().filter(|(at, _)| firsts[*at] != *at) {
        let end = ends[firsts[at]].clone();
        let relabelled = |result| CellResult { label: cell.label.clone(), ..result };
        ends[at] = end.map(|end| end.map(relabelled));
        ends[at].iter().for_each(|end| announce(at, end, tell));
    }
    outcome(work.cells, ends, is_stopped())
}

fn announce(
    cell: usize,
    end: &std::result::Result<CellResult, String>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) {
    match end {
        Ok(result) => tell(GridEvent::Done { cell, result }),
        Err(error) => tell(GridEvent::Failed { cell, error }),
    }
}

/// Results, times and failures, in the order of the grid.
fn outcome(cells: &[Cell], ends: Vec<End>, is_stopped: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for (cell, end) in cells.iter().zip(ends) {
        match end {
            Some(Ok(result)) => {
                let timing =
                    CellTiming::read(&cell.config.out, &cell.id, &cell.label, &result.device);
                outcome.timings.extend(timing);
                outcome.results.push(result);
            }
            None if is_stopped => outcome.unfinished += 1,
            failed => outcome.failures.push(Failure {
                cell: cell.id.clone(),
                label: cell.label.clone(),
                order: cell.order.clone(),
                seed: cell.config.seed,
                error: failed
                    .and_then(std::result::Result::err)
                    .unwrap_or_else(|| "its worker thread died".into()),
            }),
        }
    }
    outcome
}

/// Reads or makes the result of one cell.
fn finish(
    work: Work<'_>,
    at: usize,
    cell: &Cell,
    jobs: usize,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> std::result::Result<CellResult, String> {
    if let Some(result) = CellResult::read(&cell.config.out, cell, work.protocol) {
        tell(GridEvent::Found { cell: at });
        return Ok(result);
    }
    let run = || {
        CellTiming::begin(&cell.config.out, jobs)?;
        run(work, at, cell, stop, tell)
    };
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(Error::Panicked { what: text.unwrap_or("without a message").into() })
        })
        .map_err(|error| error.to_string())
}

fn run(
    work: Work<'_>,
    at: usize,
    cell: &Cell,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> Result<CellResult> {
    let experiment = Experiment::open_with(cell.config.clone(), work.methods)?;
    check_images(cell, &experiment)?;
    let experiment = experiment.stopping_on(Arc::clone(stop));
    let observe = |event: &Event| tell(GridEvent::Running { cell: at, event });
    let ended = match experiment.finish(Earlier::Resume, observe) {
        // It would be refused each time, and from its beginning the run gives the same.
        Err(error) if error.is_damaged_file() => {
            tell(GridEvent::Restarted { cell: at, why: &error.to_string() });
            experiment.finish(Earlier::Overwrite, observe)
        }
        ended => ended,
    };
    let (summary, mut method) = ended?;
    // A picture is no reason to lose a result.
    let _ = Looks::after(&experiment, &mut *method).and_then(|looks| looks.write(&cell.config.out));
    let result = CellResult::new(cell, work.protocol, &summary);
    write_json(&cell.config.out.join(CellResult::FILE), &result)?;
    Ok(result)
}

/// Refuses images that are not those of the plan.
fn check_images(cell: &Cell, experiment: &Experiment) -> Result<()> {
    let Some(expected) = &cell.glimpse else { return Ok(()) };
    let found = glimpse(&*experiment.dataset, &experiment.stream)?;
    if found == *expected {
        return Ok(());
    }
    let expected = format!("the images of the plan ({expected})");
    Err(Error::Checkpoint { expected, found, path: cell.config.data.path.clone() })
}
