//! `paint state`: what `paint adapt` keeps, looked at, rolled back and exported.

use std::path::PathBuf;

use paint_run::session::{export, history};

use crate::output::Output;

/// Look at, roll back or export what `paint adapt --state` keeps
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  paint state list state.safetensors
  paint state rollback state.safetensors
  paint state export state.safetensors --weights model.safetensors --out adapted/model.safetensors";

#[derive(Debug, clap::Subcommand)]
enum Action {
    List(List),
    Show(Show),
    Rollback(Rollback),
    Export(Export),
}

/// List a state and those that `adapt --keep` kept beside it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  paint state list state.safetensors --json")]
struct List {
    /// State file
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Show what a state belongs to and what it holds
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  paint state show state.safetensors")]
struct Show {
    /// State file
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Put an earlier state back in place
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  paint state rollback state.safetensors --to 200")]
struct Rollback {
    /// State file
    file: PathBuf,
    /// The state after this many batches [default: the newest before the present one]
    #[arg(long, value_name = "BATCHES")]
    to: Option<u64>,
    #[command(flatten)]
    output: Output,
}

/// Write the adapted weights with timm's names
///
/// The file has the weights that the state belongs to, with the parameters that adaptation changed in their place,
/// and is read by every command that takes --weights. Prompts and statistics lie beside the network and are not part
/// of it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  paint state export state.safetensors --weights model.safetensors --out adapted.safetensors"
)]
struct Export {
    /// State file
    file: PathBuf,
    /// Weights that the state belongs to, or `embedded`
    #[arg(long)]
    weights: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.action {
        Action::List(List { file, output }) => output
            .print(&history::list(file)?, |versions| versions.iter().map(line).collect::<String>()),
        Action::Show(Show { file, output }) => output.print(&history::show(file)?, show),
        Action::Rollback(Rollback { file, to, output }) => {
            output.print(&history::roll_back(file, *to)?, line)
        }
        Action::Export(Export { file, weights, out }) => {
            let changed = export(file, weights, out)?;
            note!("written: {}, {changed} adapted parameters", out.display());
            Ok(())
        }
    }
}

/// One state in a line.
fn line(version: &history::Version) -> String {
    let history::Version { path, current, batches, images, bytes, .. } = version;
    let mark = if *current { "*" } else { " " };
    let size = *bytes as f64 / f64::from(1 << 20);
    format!("{mark} {batches:>9} batches {images:>10} images {size:>8.1} MiB  {}\n", path.display())
}

fn show(version: &history::Version) -> String {
    let subject = version.subject.iter().map(|(key, value)| format!("  {key} = {value}\n"));
    let arrays = version.arrays.iter().map(|(name, shape)| format!("  {name} {shape:?}\n"));
    [line(version)].into_iter().chain(subject).chain(arrays).collect()
}
