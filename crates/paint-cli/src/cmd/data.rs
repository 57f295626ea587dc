//! `paint data verify`: is this folder the dataset it is said to be?

use std::path::PathBuf;

use anyhow::Context as _;
use paint_data::{DATASETS, dataset};
use paint_run::Draft;

use crate::flags::SetFlag;
use crate::output::Output;

/// Check datasets on disk
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Check layout, counts, label range and every image of a folder; report the first fault
    #[command(after_help = EXAMPLES)]
    Verify {
        /// Folder or file of the dataset
        dir: PathBuf,
        /// What it should be; see `paint list datasets`
        #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = clap::builder::PossibleValuesParser::new(DATASETS.iter().map(|entry| entry.name)))]
        dataset: String,
        #[command(flatten)]
        set: SetFlag,
        #[command(flatten)]
        output: Output,
    },
}

const EXAMPLES: &str = "\
Examples:
  paint data verify CIFAR-10-C --dataset cifar10-c
  paint data verify photos/ --dataset folder --json";

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let Action::Verify { dir, dataset, set, output } = args.action;
    let mut draft = Draft::default();
    draft.set("data.name", dataset.as_str())?;
    draft.set("data.path", dir.display().to_string())?;
    set.apply(&mut draft)?;
    let config = draft.resolve_data()?;
    let entry = dataset::entry(&config.name)?;
    let found = (entry.verify)(&config.path, &config.options)
        .with_context(|| format!("not a sound {dataset} dataset"))?;
    for note in (entry.open)(&config.path, &config.options)?.notes() {
        warning!("{note}");
    }
    output.print(&found, |found| {
        format!(
            "{dataset}: {} images in {} domains, {} classes: sound\n",
            found.images, found.domains, found.num_classes
        )
    })
}
