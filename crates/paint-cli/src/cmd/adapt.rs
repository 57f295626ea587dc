//! `paint adapt`: predictions for unlabelled images, from a model that adapts to them and keeps what it learns.

mod images;
mod output;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use paint_run::deployment::AUTO;
use paint_run::session::{End, OnDamage, Reading, Start, history};
use paint_run::{Deployment, Draft, Session, deployment};

use crate::deployment_flags::DeploymentFlags;
use crate::exit::Harm;
use crate::flags::DryRunFlag;
use crate::output::is_broken_pipe;
use crate::plan::{Plan, adaptation};
use crate::signals::{Interrupted, Signals};
use images::{ImageArgs, Incoming};
use output::Output;

/// Adapt to unlabelled images and predict them
///
/// Predictions go to standard output as CSV, or with --json as one object per line. Photographs are turned upright as
/// their Exif tag says. An image that cannot be read is named, counted and skipped.
///
/// Images are read in a random order unless --in-order is given. Single images and short batches are predicted at
/// once and learnt from when 50 have come (--no-stream gives the method each batch as it is). A guard watches for
/// harm without labels; where adaptation does not help, the frozen model answers (--no-guard leaves it out).
///
/// With --state the model keeps what it learns. SIGINT, SIGTERM and SIGHUP end the command after the present batch,
/// with the state saved; a second signal ends it at once. The same command then continues with the first image that
/// was not adapted to. After a crash or SIGKILL it continues from the last save, and predicts the images since then
/// again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// Weights file
    #[arg(long)]
    weights: PathBuf,
    #[command(flatten)]
    images: ImageArgs,
    /// Method; see `paint list methods` [default: that of --preset, or the best for the network]
    #[arg(long)]
    method: Option<String>,
    /// Keep what is learnt in this file, and begin with what is in it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Also save the state every N batches, so that a crash loses at most N; 0 saves only at the end
    #[arg(long, value_name = "N", default_value_t = 100, requires = "state")]
    checkpoint_every: usize,
    /// Keep the last N saved states beside the file, for `paint state rollback`
    #[arg(long, value_name = "N", default_value_t = 0, requires = "state")]
    keep: usize,
    /// Predict with the state as it is: learn nothing and save nothing
    #[arg(long, conflicts_with_all = ["keep", "fail_on_harm"])]
    no_adapt: bool,
    /// Exit with status 3 if adaptation did not help and the frozen model's answers were kept
    #[arg(long, conflicts_with = "no_guard")]
    fail_on_harm: bool,
    /// Begin with the first image even if an earlier command was stopped in the middle of the same images
    #[arg(long)]
    from_start: bool,
    /// Fail on the first image that cannot be read
    #[arg(long)]
    strict: bool,
    /// Print JSON lines in place of CSV: an object for each image, batch and save, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deployment: DeploymentFlags,
    #[command(flatten)]
    dry: DryRunFlag,
}

const EXAMPLES: &str = "\
Examples:
  paint adapt --weights model.safetensors --images new_images/ > predictions.csv
  paint adapt --weights model.safetensors --images new_images/ --state state.safetensors --method tent
  paint adapt --weights model.safetensors --images sorted/ --state state.safetensors --keep 5 --fail-on-harm
  paint adapt --weights model.safetensors --images more/ --state state.safetensors --no-adapt > predictions.csv
  paint adapt --weights model.safetensors --images new_images/ --preset out/tune-tent/preset.toml
  paint adapt --weights model.safetensors --images new_images/ --method keel --dry-run";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    args.deployment.network.compute.threads.start()?;
    let draft = args.deployment.draft(&args.weights, args.method.as_deref())?;
    let config: deployment::Config = draft.resolve_as()?;
    let incoming = Incoming::new(args.strict);
    let images = args.images.open(config.seed, &incoming)?;
    if args.dry.dry_run {
        return plan(args, &draft, config, images.count());
    }
    let mut session = session(args, config)?;
    let mut output = Output::new(args.json, images.count())?;
    let signals = Signals::watch().context("cannot watch for signals")?;
    let reading = Reading {
        on_damage: if args.strict { OnDamage::Stop } else { OnDamage::Skip },
        start: if args.from_start { Start::First } else { Start::WhereStopped },
        stop: Some(signals.stop()),
        ..Reading::new(args.deployment.batch_size())
    };
    let names: Vec<String> = session.class_names().to_vec();
    let end = session.read(&images, reading, &mut |event| output.show(event, &names));
    output.clear();
    let summary = session.summary();
    match end {
        Err(error) => {
            let error = anyhow::Error::from(error);
            if !is_broken_pipe(&error) {
                return Err(error);
            }
            output::summarise(&session, incoming.skipped(), begun.elapsed());
            Err(Interrupted::closed_output("standard output was closed before the last prediction")
                .into())
        }
        Ok(_) if summary.images == 0 && summary.skipped + incoming.skipped() > 0 => {
            incoming.check()?;
            let skipped = summary.skipped + incoming.skipped();
            anyhow::bail!("none of the {skipped} images could be read")
        }
        Ok(end) => {
            let named = incoming.check();
            let how = match end {
                End::Stopped => "stopped",
                End::Finished if named.is_err() => "failed",
                End::Finished => "finished",
            };
            output.finish(&session, incoming.skipped(), how, begun.elapsed())?;
            output::summarise(&session, incoming.skipped(), begun.elapsed());
            if end == End::Stopped {
                if let Err(error) = named {
                    warning!("{error:#}");
                }
                return Err(signals.ended(stopped(args)).into());
            }
            named?;
            if args.fail_on_harm && is_harm(&session) { Err(Harm.into()) } else { Ok(()) }
        }
    }
}

fn is_harm(session: &Session) -> bool {
    session.summary().guard.as_ref().is_some_and(|guard| guard.kept_frozen)
}

fn stopped(args: &Args) -> &'static str {
    if args.no_adapt {
        "stopped after the batch"
    } else if args.state.is_some() {
        "stopped after the batch; the same command continues with the next image"
    } else {
        "stopped after the batch; what was learnt is lost, give --state to keep it"
    }
}

fn session(args: &Args, config: deployment::Config) -> anyhow::Result<Session> {
    let deployment = Deployment::open(of_state(args, config)?)?;
    args.deployment.preset.warn_of_other_weights(deployment.config.model.sha256.as_deref())?;
    if let Some(images) = deployment.source_images() {
        note!("{} prepares on {images} source images", deployment.config.method.name);
    }
    let session = match &args.state {
        Some(path) if args.no_adapt => Session::with_frozen_state(deployment, path)?,
        Some(path) => {
            Session::with_state(deployment, path, args.checkpoint_every)?.keeping(args.keep)
        }
        None if args.no_adapt => Session::new(deployment)?.without_learning(),
        None => Session::new(deployment)?,
    };
    Ok(session)
}

/// The configuration with the method of the state to continue, if no method was named: statistics that were measured
/// since would let another one be chosen.
fn of_state(args: &Args, mut config: deployment::Config) -> anyhow::Result<deployment::Config> {
    let state = args.state.as_ref().filter(|path| path.is_file() && config.method.name == AUTO);
    if let Some(path) = state {
        let subject = history::show(path)?.subject;
        let name = subject.get("method.name").map_or(AUTO, |name| name.trim_matches('"'));
        name.clone_into(&mut config.method.name);
    }
    Ok(config)
}

/// Prints what would adapt to how many images.
fn plan(
    args: &Args,
    draft: &Draft,
    config: deployment::Config,
    images: Option<usize>,
) -> anyhow::Result<()> {
    let config = Deployment::open(of_state(args, config)?)?.config;
    args.deployment.preset.warn_of_other_weights(config.model.sha256.as_deref())?;
    let images = images.map_or_else(|| "images as they come".into(), |n| format!("{n} images"));
    let state = match &args.state {
        _ if args.no_adapt => "nothing is learnt".into(),
        None => "what is learnt is lost in the end: no --state".into(),
        Some(path) => format!("what is learnt is kept in {}", path.display()),
    };
    let facts = [format!("{images} in batches of {}", args.deployment.batch_size()), state];
    let plan = Plan::new(&config, &facts, |key| adaptation(draft, &config.method, key))?;
    crate::output::Output::new(args.json).print(&plan, Plan::text)
}
