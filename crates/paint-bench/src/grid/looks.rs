//! Where a finished run looked: activation maps of some images of its stream.
//!
//! They are made at the end of the run and kept beside its result. Making them later would mean building the method
//! again, which for some includes a warm-up on source images that takes longer than the run.

use std::path::Path;

use paint_data::SampleRef;
use paint_methods::Method;
use paint_run::experiment::{Experiment, write_json};
use paint_run::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::cam::{Maps, look};

/// The maps of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Looks(Vec<Look>);

/// The maps of one image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Look {
    domain: usize,
    index: usize,
    /// Where the method looked.
    #[serde(flatten)]
    pub maps: Maps,
}

impl Look {
    /// The image.
    pub fn at(&self) -> SampleRef {
        SampleRef { domain: self.domain, index: self.index }
    }
}

impl Looks {
    const FILE: &str = "looks.json";
    /// Images of a run.
    const IMAGES: usize = 4;

    /// The maps of a method at the end of its stream; none if its network has no attention. The images are spread
    /// over the stream, so that they come from several domains.
    pub(super) fn after(experiment: &Experiment, method: &mut dyn Method) -> Result<Self> {
        let batches = &experiment.stream.batches;
        let mut looks = Vec::new();
        for i in 0..Self::IMAGES {
            let batch = batches.get(batches.len() * (2 * i + 1) / (2 * Self::IMAGES));
            let Some(&at) = batch.and_then(|batch| batch.samples.first()) else { continue };
            let Some(maps) = look(experiment, method, at, None)? else { break };
            looks.push(Look { domain: at.domain, index: at.index, maps });
        }
        Ok(Self(looks))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        write_json(&folder.join(Self::FILE), self)
    }

    /// The maps that a run left in its folder; none if it left none.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(Self::FILE);
        match paint_files::read_text(&path) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| Error::Results { why: error.to_string(), path }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(Error::Io { action: "read", source, path }),
        }
    }

    /// In the order of the stream.
    pub fn iter(&self) -> impl Iterator<Item = &Look> {
        self.0.iter()
    }
}
