//! What `paint adapt` prints: predictions on stdout, progress and a summary on stderr.

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use paint_files::printable;
use paint_run::Session;
use paint_run::escape::csv;
use paint_run::session::{
    BatchDone, Event, Guarded, Predicted, Prediction, Prompts, Skipped, Summary,
};
use serde_json::json;

use crate::message;

/// Predictions on their way to stdout, and a bar where somebody watches.
pub(super) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    is_json: bool,
    bar: ProgressBar,
}

impl Output {
    pub(super) fn new(is_json: bool, images: Option<usize>) -> anyhow::Result<Self> {
        let template = match images {
            Some(_) => "{bar:24} {pos}/{len} {elapsed} {msg}",
            None => "{spinner} {pos} images {elapsed} {msg}",
        };
        let images = images.map(|images| images as u64);
        let bar = ProgressBar::with_draw_target(images, message::bar_target())
            .with_style(ProgressStyle::with_template(template)?);
        Ok(Self { out: BufWriter::new(io::stdout().lock()), is_json, bar })
    }

    /// Prints what happened; an error is that of stdout.
    pub(super) fn show(&mut self, event: &Event, names: &[String]) -> paint_run::Result<()> {
        let shown = match event {
            Event::Started { images, position, is_repeated, seen } => {
                announce(*images, *position, *is_repeated, *seen);
                self.started(*images, *position, *seen)
            }
            Event::BatchDone(batch) => self.batch(batch, names),
            Event::Saved => self.line(&json!({ "event": "saved" })),
        };
        shown.map_err(|source| paint_run::Error::Io {
            action: "write",
            source,
            path: "standard output".into(),
        })
    }

    fn started(&mut self, images: Option<usize>, position: usize, seen: u64) -> io::Result<()> {
        self.bar.set_position(position as u64);
        if self.is_json {
            self.object(&json!({
                "event": "started", "images": images, "position": position, "seen": seen,
            }))?;
        } else {
            writeln!(self.out, "file,class_index,class_name,confidence")?;
        }
        self.out.flush()
    }

    fn batch(&mut self, batch: &BatchDone, names: &[String]) -> io::Result<()> {
        // Where both are terminals the bar would be drawn into the rows.
        if io::stdout().is_terminal() {
            let bar = self.bar.clone();
            bar.suspend(|| self.rows(batch, names))?;
        } else {
            self.rows(batch, names)?;
        }
        for Skipped { why, .. } in &batch.skipped {
            self.bar.suspend(|| warning!("skipped: {why}"));
        }
        self.bar.inc((batch.predictions.len() + batch.skipped.len()) as u64);
        if let Some(prompt) = batch.prompt {
            let new = if prompt.allocated { " (new)" } else { "" };
            self.bar.set_message(format!("prompt {}{new}", prompt.index));
        }
        Ok(())
    }

    fn rows(&mut self, batch: &BatchDone, names: &[String]) -> io::Result<()> {
        for Predicted { file, prediction } in &batch.predictions {
            let Prediction { class, confidence } = *prediction;
            let name = names.get(class).map(String::as_str);
            if self.is_json {
                self.object(&json!({
                    "event": "prediction",
                    "file": file,
                    "class_index": class,
                    "class_name": name,
                    "confidence": confidence,
                }))?;
            } else {
                let (file, name) = (field(file), field(name.unwrap_or_default()));
                writeln!(self.out, "{file},{class},{name},{confidence:.4}")?;
            }
        }
        if self.is_json {
            for Skipped { file, why } in &batch.skipped {
                self.object(&json!({ "event": "skipped", "file": file, "error": why }))?;
            }
            self.object(&json!({
                "event": "batch_done",
                "index": batch.index,
                "images": batch.predictions.len(),
                "skipped": batch.skipped.len(),
                "prompt": batch.prompt,
                "scalars": batch.scalars,
                "guard": batch.guard,
                "ms": batch.ms,
            }))?;
        }
        self.out.flush()
    }

    /// One object on a line of its own.
    fn object(&mut self, object: &serde_json::Value) -> io::Result<()> {
        writeln!(self.out, "{}", escaped(&object.to_string()))
    }

    /// The same at once, in JSON only.
    fn line(&mut self, object: &serde_json::Value) -> io::Result<()> {
        if self.is_json {
            self.object(object)?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// The last line; `lines` were no file names, and `end` says how the images ended.
    pub(super) fn finish(
        &mut self,
        session: &Session,
        lines: u64,
        end: &str,
        elapsed: Duration,
    ) -> io::Result<()> {
        let mut object = json!(session.summary());
        object["event"] = "summary".into();
        object["skipped"] = (session.summary().skipped + lines).into();
        object["end"] = end.into();
        object["images_seen"] = session.images_seen().into();
        object["duration_s"] = elapsed.as_secs_f64().into();
        self.line(&object)
    }
}

/// Says what a state brings with it.
fn announce(images: Option<usize>, position: usize, is_repeated: bool, seen: u64) {
    if seen > 0 {
        note!("the state has adapted to {} before", counted(seen, "image", "images"));
    }
    if position > 0 {
        let of = images.unwrap_or_default();
        note!("continues with image {} of {of}, the first after the last save", position + 1);
    } else if is_repeated {
        note!("these images were adapted to before, and are predicted again");
    }
}

/// A CSV field of a name that may hold anything: what a terminal would obey is written as an escape.
fn field(name: &str) -> String {
    csv(&printable(name))
}

/// JSON of the same meaning without the control characters that it may hold raw.
fn escaped(json: &str) -> String {
    let escape = |c: char| {
        if c.is_control() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    json.chars().map(escape).collect()
}

/// Says what was done, on stderr; `lines` were no file names.
pub(super) fn summarise(session: &Session, lines: u64, elapsed: Duration) {
    let Summary { images, skipped, batches, prompts, state, conditions, guard, .. } =
        session.summary();
    let (seconds, batches) = (elapsed.as_secs_f64(), counted(*batches, "batch", "batches"));
    let photos = |count: u64| counted(count, "image", "images");
    let done = if session.learns() { "adapted to" } else { "predicted" };
    note!("{done} {} in {batches}, {seconds:.1} s", photos(*images));
    let skipped = *skipped + lines;
    if skipped > 0 {
        note!("skipped {} that could not be read", photos(skipped));
    }
    if let Some(Prompts { allocated, reused }) = prompts {
        let reused = counted(*reused, "batch", "batches");
        note!("prompts: {allocated} allocated, {reused} used an earlier one");
    }
    if let Some(count) = conditions {
        note!("conditions told apart: {count}");
    }
    if let Some(guard) = guard {
        account(guard);
    }
    if let Some(path) = state {
        note!("state: {}, adapted to {}", path.display(), photos(session.images_seen()));
    }
}

/// Says what the guard saw and did.
fn account(guard: &Guarded) {
    if let (Some(before), Some(after)) = (guard.estimate_before, guard.estimate_after) {
        note!(
            "estimated accuracy, without labels: frozen model {before:.0} %, answers given {after:.0} %"
        );
    } else {
        note!("too few images, or too few classes, to estimate the accuracy");
    }
    let acted: u64 = guard.acted.values().sum();
    if acted > 0 {
        note!("the guard acted {}:", counted(acted, "time", "times"));
        guard.acted.iter().for_each(|(what, count)| note!("  {count} x {what}"));
    }
    if guard.kept_frozen {
        warning!("adaptation did not help here; the frozen model's answers were kept");
    } else if guard.frozen_images > 0 {
        let of = (guard.frozen_images, guard.images);
        note!("the frozen model answered {} of {} images", of.0, of.1);
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_anything_stay_on_their_line_and_out_of_the_terminal() {
        assert_eq!(field("cat"), "cat");
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(field("\u{1b}[2J\n\u{9b}x"), r"\u{1b}[2J\n\u{9b}x");
        let json = json!("\u{1b}\u{7f}\u{9b}é").to_string();
        let safe = escaped(&json);
        assert_eq!(safe, r#""\u001b\u007f\u009bé""#);
        let (safe, json): (String, String) =
            (serde_json::from_str(&safe).unwrap(), serde_json::from_str(&json).unwrap());
        assert_eq!(safe, json);
    }
}
