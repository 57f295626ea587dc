//! A training as a line that moves, and as lines that stay where nobody watches.

use std::time::Duration;

use anyhow::Result;
use indicatif::{FormattedDuration, ProgressBar, ProgressStyle};
use paint_train::Event;

use crate::message;

/// The line.
pub(crate) struct Bar {
    bar: ProgressBar,
    epochs: usize,
}

impl Bar {
    pub(crate) fn new() -> Result<Self> {
        let bar = ProgressBar::with_draw_target(Some(0), message::bar_target());
        bar.set_style(ProgressStyle::with_template("{bar:24} {elapsed} {msg}")?);
        Ok(Self { bar, epochs: 0 })
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::Started { done, epochs, steps } => {
                self.epochs = *epochs;
                self.bar.set_length((epochs * steps) as u64);
                if *done > 0 {
                    note!("continues after epoch {done}");
                    self.bar.set_position((done * steps) as u64);
                }
            }
            Event::Progress(now) => {
                let steps = self.bar.length().unwrap_or(0) / self.epochs.max(1) as u64;
                self.bar.set_position((now.epoch as u64 - 1) * steps + now.step as u64);
                self.bar.set_message(format!(
                    "epoch {}/{}, loss {:.3}, {:.1} %, {:.0} images/s, {} left",
                    now.epoch,
                    self.epochs,
                    now.loss,
                    now.train_accuracy,
                    now.images_per_second,
                    FormattedDuration(Duration::from_secs_f64(now.remaining_s.clamp(0.0, 1e9))),
                ));
            }
            Event::EpochDone(row) if row.test_accuracy.is_some() || self.bar.is_hidden() => {
                let percent = |name: &str, value: Option<f64>| {
                    value.map_or_else(String::new, |x| format!(", {name} {x:.2} %"))
                };
                let line = format!(
                    "epoch {}/{}: loss {:.4}, training {:.1} %{}{}, lr {:.2e}, {:.0} images/s",
                    row.epoch,
                    self.epochs,
                    row.loss,
                    row.train_accuracy,
                    percent("test", row.test_accuracy),
                    percent("averaged", row.averaged_test_accuracy),
                    row.lr,
                    row.images_per_second,
                );
                self.bar.suspend(|| note!("{line}"));
            }
            Event::EpochDone(_) | Event::Saved { .. } => {}
        }
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
