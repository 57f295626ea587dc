//! One display for a grid: how many cells are done, and where each running one stands.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use paint_bench::grid::{Cell, GridEvent};
use paint_run::Event;

use crate::message;

/// The state of the display; told from any thread.
pub(crate) struct Progress {
    names: Vec<String>,
    bars: MultiProgress,
    total: ProgressBar,
    running: Mutex<BTreeMap<usize, ProgressBar>>,
}

impl Progress {
    pub(crate) fn new(cells: &[Cell]) -> anyhow::Result<Self> {
        let bars = MultiProgress::with_draw_target(message::bar_target());
        let total = bars.add(ProgressBar::new(cells.len() as u64));
        total.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} runs {elapsed}")?);
        Ok(Self {
            names: cells.iter().map(Cell::name).collect(),
            bars,
            total,
            running: Mutex::default(),
        })
    }

    pub(crate) fn tell(&self, event: &GridEvent<'_>) {
        match event {
            GridEvent::Found { cell } => {
                self.line(&format!("{}: found", self.names[*cell]));
            }
            GridEvent::Restarted { cell, why } => {
                let name = &self.names[*cell];
                self.line(&format!("{name}: begins anew, what was saved of it is damaged: {why}"));
            }
            GridEvent::Running { cell, event } => self.running(*cell, event),
            GridEvent::Done { cell, result } => {
                let name = &self.names[*cell];
                self.line(&format!("{name}: {:.2} %", result.mean_accuracy));
                self.ended(*cell);
            }
            GridEvent::Failed { cell, error } => {
                self.line(&format!("{}: failed: {error}", self.names[*cell]));
                self.ended(*cell);
            }
        }
    }

    pub(crate) fn finish(&self) {
        self.total.finish_and_clear();
    }

    /// Above the bars on a terminal, otherwise plainly.
    fn line(&self, text: &str) {
        if self.bars.is_hidden() {
            note!("{text}");
        } else {
            // A terminal that goes away takes the line with it.
            let _ = self.bars.println(message::safe(text));
        }
    }

    fn running(&self, cell: usize, event: &Event) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::RunStarted { batches, position, .. } => {
                let bar = self.bars.add(ProgressBar::new(*batches as u64));
                if let Ok(style) = ProgressStyle::with_template("  {bar:22} {pos}/{len} {msg}") {
                    bar.set_style(style);
                }
                bar.set_position(*position as u64);
                running.insert(cell, bar);
            }
            Event::BatchDone(batch) => {
                if let Some(bar) = running.get(&cell) {
                    bar.set_position(batch.index as u64 + 1);
                    let so_far = batch.running_accuracy.unwrap_or_default();
                    let name = &self.names[cell];
                    let line = format!("{name}: {}, so far {so_far:.1} %", batch.domain);
                    bar.set_message(message::safe(&line));
                }
            }
            Event::DomainDone(_) | Event::RunDone(_) => {}
        }
    }

    fn ended(&self, cell: usize) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = running.remove(&cell) {
            bar.finish_and_clear();
        }
        self.total.inc(1);
    }
}
