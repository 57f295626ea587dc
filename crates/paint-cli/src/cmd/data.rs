//! `paint data verify`: is this folder the dataset it is said to be?

use std::path::PathBuf;

use anyhow::Context as _;
use paint_data::{DATASETS, dataset};

use crate::output::Output;

/// Look after datasets on disk.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Check layout, counts and label range; tells the first thing that is wrong
    Verify {
        /// The dataset's folder (or file)
        dir: PathBuf,
        /// The row of `paint list datasets` it should be
        #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(DATASETS.iter().map(|entry| entry.name)))]
        dataset: String,
        #[command(flatten)]
        output: Output,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let Action::Verify { dir, dataset, output } = args.action;
    let entry = dataset::entry(&dataset)?;
    let found = (entry.verify)(&dir).with_context(|| format!("not a sound {dataset} dataset"))?;
    output.print(&found, |found| {
        format!(
            "{dataset}: {} images in {} domains, {} classes: sound\n",
            found.images, found.domains, found.num_classes
        )
    })
}
