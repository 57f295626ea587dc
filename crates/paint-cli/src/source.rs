//! Source images, as `run`, `adapt` and `bench` are told of them and tell of them.

use std::path::PathBuf;

use paint_run::{Draft, Experiment};

/// Source images, for the methods that look at them before they are deployed (`paint list methods` says which).
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// The row of `paint list datasets` that holds source images (source.name)
    #[arg(id = "source_dataset", long = "source-dataset", value_name = "NAME")]
    dataset: Option<String>,
    /// Its folder or file (source.path)
    #[arg(id = "source_data", long = "source-data", value_name = "PATH")]
    data: Option<PathBuf>,
    /// How many source images are drawn, 2000 unless given (source.images)
    #[arg(id = "source_images", long = "source-images", value_name = "COUNT")]
    images: Option<u32>,
}

impl SourceArgs {
    /// What was given, as flags, without the place of files.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let dataset = self.dataset.clone().map(|name| ("source-dataset", name));
        let data = self.data.as_ref().map(|_| ("source-data", "SOURCE".to_owned()));
        let images = self.images.map(|images| ("source-images", images.to_string()));
        [dataset, data, images].into_iter().flatten().collect()
    }

    /// Puts what was given in its place.
    pub(crate) fn apply(&self, draft: &mut Draft) -> paint_run::Result<()> {
        if let Some(name) = &self.dataset {
            draft.set("source.name", name.as_str())?;
        }
        if let Some(path) = &self.data {
            draft.set("source.path", path.display().to_string())?;
        }
        if let Some(images) = self.images {
            draft.set("source.images", i64::from(images))?;
        }
        if draft.get("source").is_some() && draft.get("source.name").is_none() {
            return Err(paint_run::Error::Config {
                why: "source images: give --source-dataset, the row of `paint list datasets` that holds them".into(),
            });
        }
        Ok(())
    }
}

/// Says what a user should know before the first batch: files that were skipped, and what the method prepares, which
/// may take minutes.
pub(crate) fn announce(experiment: &Experiment) {
    for note in experiment.dataset.notes() {
        warning!("{note}");
    }
    if let Some(images) = experiment.source_images() {
        note!("{} prepares on {images} source images", experiment.config.method.name);
    }
}
