//! The flags that say where source images are, which `run` and `adapt` share.

use std::path::PathBuf;

use paint_run::Draft;

/// Source images, for the methods that look at them before they are deployed (`paint list methods` says which).
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// The row of `paint list datasets` that holds source images (source.name)
    #[arg(long, value_name = "NAME")]
    source_dataset: Option<String>,
    /// Its folder or file (source.path)
    #[arg(long, value_name = "PATH")]
    source_data: Option<PathBuf>,
    /// How many source images are drawn, 2000 unless given (source.images)
    #[arg(long, value_name = "COUNT")]
    source_images: Option<u32>,
}

impl SourceArgs {
    /// Puts what was given in its place.
    pub(crate) fn apply(&self, draft: &mut Draft) -> paint_run::Result<()> {
        if let Some(name) = &self.source_dataset {
            draft.set("source.name", name.as_str())?;
        }
        if let Some(path) = &self.source_data {
            draft.set("source.path", path.display().to_string())?;
        }
        if let Some(images) = self.source_images {
            draft.set("source.images", i64::from(images))?;
        }
        Ok(())
    }
}
