//! `paint data verify`: is this folder the dataset it is said to be?

use std::path::PathBuf;

use anyhow::Context as _;
use paint_data::{DATASETS, dataset};
use paint_run::Draft;

use crate::output::Output;

/// Look after datasets on disk.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Check layout, counts, label range and every image of a folder; reports the first thing that is wrong
    Verify {
        /// The dataset's folder (or file)
        dir: PathBuf,
        /// The row of `paint list datasets` it should be
        #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(DATASETS.iter().map(|entry| entry.name)))]
        dataset: String,
        /// How to open it, as for a run, such as data.options.domains=folders; may be given several times
        #[arg(long = "set", value_name = "KEY=VALUE")]
        assignments: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let Action::Verify { dir, dataset, assignments, output } = args.action;
    let mut draft = Draft::default();
    draft.set("data.name", dataset.as_str())?;
    draft.set("data.path", dir.display().to_string())?;
    for assignment in &assignments {
        draft.set_assignment(assignment)?;
    }
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
