//! What a method is built from, beside its settings.

use paint_nn::backbone::vit::VitConfig;
use paint_nn::backbone::{Backbone, Family};
use paint_rng::Seed;
use paint_tensor::Tensor;

use crate::draws::Draws;
use crate::source_data::{Labelled, SourceData};
use crate::statistics::{SourceStatistics, StatisticsFrom};
use crate::{Error, Result};

/// What a method is built from, beside its settings.
#[derive(Clone, Copy)]
pub struct BuildArgs<'a> {
    /// The source model. A method works on duplicates, which share its memory until they differ.
    pub model: &'a dyn Backbone,
    /// Every random draw of the method comes from here.
    pub seed: Seed,
    /// Only these classes compete, in this order (ImageNet-R has 200 of ImageNet's 1000); `None` for all.
    pub classes: Option<&'a [usize]>,
    /// Source images, for the methods whose row says that they need them.
    pub source: Option<SourceData<'a>>,
    /// Statistics of the model's tokens on clean images, for the methods that align to them.
    pub statistics: Option<StatisticsFrom<'a>>,
    /// Recorded draws in place of those that `seed` gives.
    pub draws: Option<&'a Draws>,
}

impl<'a> BuildArgs<'a> {
    /// With all classes of `model`, no source data and draws from `seed`.
    pub fn new(model: &'a dyn Backbone, seed: Seed) -> Self {
        Self { model, seed, classes: None, source: None, statistics: None, draws: None }
    }

    /// A duplicate of the source model that does not learn.
    pub(crate) fn frozen_model(&self) -> Box<dyn Backbone> {
        let mut model = self.model.duplicate();
        model.params_mut().freeze();
        model
    }

    /// `C`, the classes that compete.
    pub(crate) fn num_classes(&self) -> usize {
        self.classes.map_or(self.model.spec().num_classes, <[usize]>::len)
    }

    /// The sizes of the network, for a method that works on the tokens of a transformer; any other is refused.
    pub(crate) fn transformer(&self, method: &'static str) -> Result<&'a VitConfig> {
        self.model.vit_config().ok_or_else(|| {
            let name = &self.model.spec().name;
            let why = format!("it works on the tokens of a vision transformer, and {name} is none");
            Error::Config { method, why }
        })
    }

    /// Refuses a network that is not convolutional, for a method that adds convolutions to its images.
    pub(crate) fn convolutional(&self, method: &'static str) -> Result<()> {
        if self.model.family() == Family::Convolutional {
            return Ok(());
        }
        let name = &self.model.spec().name;
        let why =
            format!("it works on the images inside a convolutional network, and {name} is none");
        Err(Error::Config { method, why })
    }

    /// The recorded draws, or those of the seed.
    pub(crate) fn draws(&self) -> Draws {
        self.draws.cloned().unwrap_or_else(|| Draws::seeded(self.seed))
    }

    /// The statistics that come with the weights, or those of the source images where none do; nothing without either.
    pub(crate) fn source_statistics(&self) -> Result<Option<SourceStatistics>> {
        Ok(match (self.statistics, self.source) {
            (Some(statistics), _) => Some(statistics.read()?),
            (None, Some(source)) => {
                let images = source.images(self.model.spec())?;
                Some(SourceStatistics::collect(self.model, images)?)
            }
            (None, None) => None,
        })
    }

    /// The source images a method needs.
    pub(crate) fn unlabelled(&self, method: &'static str) -> Result<&'a Tensor> {
        let missing = Error::NoSource { method, need: "unlabelled source images", found: "none" };
        self.source.ok_or(missing)?.images(self.model.spec())
    }

    /// The source images and labels a method needs.
    pub(crate) fn labelled(&self, method: &'static str) -> Result<Labelled> {
        let missing = |found| Error::NoSource { method, need: "labelled source images", found };
        let source = self.source.ok_or_else(|| missing("none"))?;
        source
            .labelled(self.model.spec(), self.num_classes())?
            .ok_or_else(|| missing("images without labels"))
    }
}
