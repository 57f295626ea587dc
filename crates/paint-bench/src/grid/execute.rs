//! Runs the cells of a grid, some at a time. A cell that fails, or even panics, leaves the others alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};

use super::cell::{Cell, run_name};
use super::cell_result::CellResult;
use super::layout::Grid;
use super::looks::Looks;
use super::timing::CellTiming;
use crate::{Error, Result};
use paint_run::Event;
use paint_run::experiment::{Earlier, Experiment, write_json};

/// What happens to a grid; `cell` is the place in `Grid::cells`.
#[derive(Debug)]
pub enum GridEvent<'a> {
    /// It was finished before.
    Found {
        /// The cell.
        cell: usize,
    },
    /// It tells something.
    Running {
        /// The cell.
        cell: usize,
        /// What it tells.
        event: &'a Event,
    },
    /// It is finished.
    Done {
        /// The cell.
        cell: usize,
        /// With this.
        result: &'a CellResult,
    },
    /// It broke.
    Failed {
        /// The cell.
        cell: usize,
        /// Of this.
        error: &'a str,
    },
}

/// A cell that broke.
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
    /// Why.
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
    /// Of the cells that finished, in the order of the grid.
    pub results: Vec<CellResult>,
    /// Of the cells that finished, in the order of the grid.
    pub timings: Vec<CellTiming>,
    /// Of the cells that failed.
    pub failures: Vec<Failure>,
    /// Cells that were not finished, or not begun, because the grid was told to stop.
    pub unfinished: usize,
}

/// Runs every cell that is not finished, `jobs` at a time. `tell` hears of everything, from any thread; if it panics, that
/// event is lost and nothing else. Once `stop` is true, cells that run end after their present batch, saved, and no other is
/// begun.
pub fn execute(
    grid: &Grid,
    jobs: usize,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> Outcome {
    let tell: &(dyn Fn(GridEvent<'_>) + Sync) = &|event| {
        let _ = catch_unwind(AssertUnwindSafe(|| tell(event)));
    };
    let jobs = jobs.clamp(1, grid.cells.len().max(1));
    let next = AtomicUsize::new(0);
    let ends: Mutex<Vec<Option<std::result::Result<CellResult, String>>>> =
        Mutex::new(vec![None; grid.cells.len()]);
    let is_stopped = || stop.load(Ordering::Relaxed);
    let work = || {
        while !is_stopped() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = grid.cells.get(at) else { return };
            let end = finish(grid, at, cell, jobs, stop, tell);
            if end.is_err() && is_stopped() {
                return;
            }
            match &end {
                Ok(result) => tell(GridEvent::Done { cell: at, result }),
                Err(error) => tell(GridEvent::Failed { cell: at, error }),
            }
            ends.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(end);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            // Panics are caught where they can be told; a cell without an end is a failure below.
            let _ = worker.join();
        }
    });
    let mut outcome = Outcome::default();
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (cell, end) in grid.cells.iter().zip(ends) {
        match end {
            Some(Ok(result)) => {
                let timing =
                    CellTiming::read(&cell.config.out, &cell.id, &cell.label, &result.device);
                outcome.timings.extend(timing);
                outcome.results.push(result);
            }
            None if is_stopped() => outcome.unfinished += 1,
            failed => outcome.failures.push(Failure {
                cell: cell.id.clone(),
                label: cell.label.clone(),
                order: cell.order.clone(),
                seed: cell.config.seed,
                error: failed
                    .and_then(std::result::Result::err)
                    .unwrap_or_else(|| "the thread that ran it died".into()),
            }),
        }
    }
    outcome
}

/// Reads or makes the result of one cell.
fn finish(
    grid: &Grid,
    at: usize,
    cell: &Cell,
    jobs: usize,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> std::result::Result<CellResult, String> {
    if let Some(result) = CellResult::read(&cell.config.out, cell, &grid.hash) {
        tell(GridEvent::Found { cell: at });
        return Ok(result);
    }
    let run = || {
        CellTiming::begin(&cell.config.out, jobs)?;
        run(grid, at, cell, stop, tell)
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
    grid: &Grid,
    at: usize,
    cell: &Cell,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> Result<CellResult> {
    let experiment = Experiment::open(cell.config.clone())?.stopping_on(Arc::clone(stop));
    let (summary, mut method) = experiment
        .finish(Earlier::Resume, |event: &Event| tell(GridEvent::Running { cell: at, event }))?;
    // A picture is no reason to lose a result.
    let _ = Looks::after(&experiment, &mut *method).and_then(|looks| looks.write(&cell.config.out));
    let result = CellResult::new(cell, &grid.hash, &summary);
    write_json(&cell.config.out.join(CellResult::FILE), &result)?;
    Ok(result)
}
