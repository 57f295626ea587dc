//! Flags that several commands share: declared once, so that a name, its type and its meaning are the same everywhere.
//!
//! Each flag is optional: what is not given comes from a document (`paint run --config`) or from the default in the
//! help.

use std::path::Path;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use paint_run::config::method_of;
use paint_run::deployment::AUTO;
use paint_run::metric::Rate;
use paint_run::{Draft, Earlier};
use paint_tensor::{Device, Precision};

use crate::{Usage, process};

/// Flags of every command that runs a network.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct NetworkFlags {
    /// Batch size [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: Option<u32>,
    #[command(flatten)]
    pub(crate) seed: SeedFlag,
    #[command(flatten)]
    pub(crate) compute: ComputeFlags,
}

/// `--seed`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SeedFlag {
    /// Seed of every random draw [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
}

/// Where and how a command computes.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ComputeFlags {
    /// Device; see `paint list devices` [default: cpu]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Precision of products; a CPU has f32, tf32 and int8, a GPU f32, tf32, bf16 and fp8 [default: f32]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Precision::ALL.map(|(name, _)| name)))]
    pub(crate) precision: Option<String>,
    #[command(flatten)]
    pub(crate) threads: ThreadsFlag,
}

/// `--threads`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ThreadsFlag {
    /// Number of threads; 0 takes every core [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

/// What to do with what an earlier command left in the output folder.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct EarlierFlags {
    /// Continue what lies in the output folder, if there is anything
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) resume: bool,
    /// Start anew in place of what lies in the output folder
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// What stands around a method.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct WrapFlags {
    /// Watch for harm without labels and undo it; the frozen model answers where adaptation does not help (guard)
    #[arg(long, conflicts_with = "no_guard")]
    pub(crate) guard: bool,
    /// Leave the guard out
    #[arg(long)]
    pub(crate) no_guard: bool,
    /// Take single images, short batches and runs of one class as they come (stream)
    #[arg(long, conflicts_with = "no_stream")]
    pub(crate) stream: bool,
    /// Give the method each batch as it is
    #[arg(long)]
    pub(crate) no_stream: bool,
}

/// `--set`, in one dialect everywhere.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SetFlag {
    /// Set a key: paint.eta=0.4 (method.eta where one method runs), scenario.severity=3; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) assignments: Vec<String>,
}

/// `--metric`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MetricFlag {
    /// What tables, pages and charts show; summary.json and .csv files always hold accuracies
    #[arg(long, value_name = "NAME", default_value = Rate::Accuracy.name())]
    #[arg(value_parser = PossibleValuesParser::new(Rate::ALL.map(Rate::name)))]
    metric: String,
}

/// `--dry-run`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct DryRunFlag {
    /// Print everything that would run, with every default, and neither run nor write anything
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl MetricFlag {
    /// What to show.
    pub(crate) fn rate(&self) -> Rate {
        Rate::ALL.into_iter().find(|rate| rate.name() == self.metric).unwrap_or_default()
    }
}

impl SeedFlag {
    /// The seed, or the default.
    pub(crate) fn value(&self) -> u64 {
        self.seed.unwrap_or(0)
    }
}

impl ThreadsFlag {
    /// Starts the threads of all kernels, once.
    pub(crate) fn start(&self) -> Result<()> {
        process::set_threads(self.threads.unwrap_or(0))
    }
}

impl ComputeFlags {
    /// The name of the device.
    pub(crate) fn device(&self) -> &str {
        self.device.as_deref().unwrap_or("cpu")
    }

    /// The name of the precision.
    pub(crate) fn precision(&self) -> &str {
        self.precision.as_deref().unwrap_or("f32")
    }

    /// Starts the threads and opens the device.
    pub(crate) fn open(&self) -> Result<Device> {
        self.threads.start()?;
        process::device(self.device(), self.precision())
    }
}

impl NetworkFlags {
    /// Puts what was given into the document of a run.
    pub(crate) fn apply(&self, draft: &mut Draft) -> paint_run::Result<()> {
        let threads = self.compute.threads.threads.map(|threads| threads as i64);
        let numbers =
            [("scenario.batch_size", self.batch_size.map(i64::from)), ("threads", threads)];
        for (key, value) in numbers {
            if let Some(value) = value {
                draft.set(key, value)?;
            }
        }
        self.apply_to_deployment(draft)
    }

    /// Puts what was given into a document that has no stream of images.
    pub(crate) fn apply_to_deployment(&self, draft: &mut Draft) -> paint_run::Result<()> {
        let ComputeFlags { device, precision, .. } = &self.compute;
        for (key, value) in [("device", device), ("precision", precision)] {
            if let Some(value) = value {
                draft.set(key, value.as_str())?;
            }
        }
        if let Some(seed) = self.seed.seed {
            draft.set("seed", seed as i64)?;
        }
        Ok(())
    }
}

impl WrapFlags {
    /// Puts what was asked for, or else `usual`, into a document after `--set`; a table that is there stays.
    pub(crate) fn apply(self, draft: &mut Draft, usual: bool) -> Result<()> {
        let flags = [("guard", self.guard, self.no_guard), ("stream", self.stream, self.no_stream)];
        for (key, wanted, refused) in flags {
            let is_there = draft.get(key).is_some();
            if refused && is_there {
                let why = format!("--no-{key} contradicts the {key} settings that are given");
                return Err(Usage(why).into());
            }
            if !is_there && (wanted || usual && !refused) {
                draft.set_assignment(&format!("{key}={{}}"))?;
            }
        }
        Ok(())
    }
}

impl SetFlag {
    /// Puts every assignment into the document of a run of one method. Settings of a method come last, because an
    /// assignment may choose the method, and those of another method change nothing.
    pub(crate) fn apply(&self, draft: &mut Draft) -> paint_run::Result<()> {
        let (settings, keys): (Vec<_>, Vec<_>) =
            self.assignments.iter().partition(|text| method_of(text).is_some());
        for assignment in keys {
            draft.set_assignment(assignment)?;
        }
        let running = draft.get("method.name").and_then(|name| name.as_str()).map(str::to_owned);
        for assignment in settings {
            match (method_of(assignment), setting_of(assignment)) {
                (method, Some(setting)) if method == running.as_deref() => {
                    draft.set_assignment(&format!("method.{setting}"))?;
                }
                (Some(method), Some(setting)) if running.as_deref() == Some(AUTO) => {
                    return Err(paint_run::Error::config(format!(
                        "--set {assignment}: the network chooses the method; name it with --method {method}, or write \
                         method.{setting}"
                    )));
                }
                (method, _) => warn_of_idle(assignment, method.unwrap_or_default()),
            }
        }
        Ok(())
    }

    /// Refuses an assignment that has put other weights in the place of those of a flag: one of the two would be lost
    /// without a word.
    pub(crate) fn check_weights(draft: &Draft, given: &Path) -> Result<(), Usage> {
        let given = given.display().to_string();
        match draft.get("model.weights").and_then(|found| found.as_str()) {
            Some(found) if found != given => Err(Usage(format!(
                "weights: given twice, as {given:?} by a flag and as {found:?} by --set model.weights; give one of them"
            ))),
            _ => Ok(()),
        }
    }

    /// The assignments with `method.KEY` as the key of the only method, for documents that hold settings of several.
    pub(crate) fn for_methods(&self, methods: &[String]) -> Result<Vec<String>, Usage> {
        let named = |assignment: &String| {
            let Some(setting) = assignment.trim_start().strip_prefix("method.") else {
                return Ok(assignment.clone());
            };
            match methods {
                [method] => Ok(format!("{method}.{setting}")),
                _ => Err(Usage(format!(
                    "--set {assignment}: more than one method runs here; write METHOD.{setting}"
                ))),
            }
        };
        self.assignments.iter().map(named).collect()
    }
}

/// `eta=0.4` of `paint.eta=0.4`.
fn setting_of(assignment: &str) -> Option<&str> {
    assignment.split_once('.').map(|(_, setting)| setting)
}

/// Says that a setting belongs to a method which does not run.
pub(crate) fn warn_of_idle(assignment: &str, method: &str) {
    warning!("--set {assignment} changes nothing: {method} does not run here");
}

impl EarlierFlags {
    /// What was asked for; nothing asked keeps what is there.
    pub(crate) fn choice(self) -> Earlier {
        match (self.resume, self.overwrite) {
            (true, _) => Earlier::Resume,
            (_, true) => Earlier::Overwrite,
            _ => Earlier::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_a_method_is_refused_while_the_network_chooses_the_method() {
        let apply = |assignments: &[&str]| {
            let mut draft = Draft::default();
            draft.set("method.name", AUTO).unwrap();
            let assignments = assignments.iter().map(ToString::to_string).collect();
            SetFlag { assignments }.apply(&mut draft).map(|()| draft)
        };
        for setting in ["keel.x=", "keel.lr=1e-3"] {
            let error = apply(&[setting]).unwrap_err();
            assert!(error.is_usage());
            let message = error.to_string();
            assert!(message.contains(&format!("--set {setting}: the network")), "{message}");
            assert!(message.contains("--method keel"), "{message}");
        }
        // An assignment may choose the method, wherever it stands.
        let draft = apply(&["keel.lr=1e-3", "method.name=keel"]).unwrap();
        assert_eq!(draft.get("method.lr").and_then(toml::Value::as_float), Some(1e-3));
    }
}
