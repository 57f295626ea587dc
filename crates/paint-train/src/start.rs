//! Where a training begins: drawn weights, or those of a file.
//!
//! Given weights keep everything but their classifier, which is drawn anew where the classes differ in number. A vision
//! transformer for another image size gets its position embeddings resampled as timm does: bicubic, antialiased.

use std::path::PathBuf;

use paint_nn::backbone::{Backbone, BackboneEntry, BuildOptions, Positions, Weights};
use paint_nn::checkpoint::{
    self, Architecture, Array, Checkpoint, Dtype, Interpolation, Preprocess, PreprocessFlags,
    Traits,
};
use paint_nn::params::Role;
use paint_rng::Seed;
use paint_tensor::Device;

use crate::error::Result;

/// What a new model is to be.
#[derive(Debug, Clone)]
pub struct Start {
    /// The file to begin with; drawn weights if none.
    pub weights: Option<PathBuf>,
    /// `[H, W]` in place of the network's own.
    pub image_size: Option<[usize; 2]>,
    /// `C`.
    pub num_classes: usize,
    /// Of the drawn weights.
    pub seed: Seed,
}

impl Start {
    /// The model on `device`, and the SHA-256 of the file it began with.
    pub fn build(
        &self,
        entry: &BackboneEntry,
        device: &Device,
    ) -> Result<(Box<dyn Backbone>, Option<String>)> {
        let Some(path) = &self.weights else { return Ok((self.drawn(entry, device)?, None)) };
        let flags = PreprocessFlags { input_size: self.image_size, ..PreprocessFlags::default() };
        let (_, arrays) = checkpoint::to_timm(checkpoint::read(path)?)?;
        let preprocess = checkpoint::read_preprocess(path, &flags)?;
        let beside = checkpoint::read_model_config(path)?;
        let num_heads = Architecture::detect(&arrays, &beside)?.stated_heads();
        let traits = Traits::of(&arrays, &beside);
        let arrays = self.with_head(arrays, entry)?;
        let options = BuildOptions {
            preprocess: Some(preprocess),
            positions: Positions::Interpolate,
            num_heads,
            traits,
            ..BuildOptions::new(device)
        };
        let model = entry.build(Weights::Checkpoint(arrays), &options)?;
        Ok((model, Some(checkpoint::sha256(path)?)))
    }

    fn drawn(&self, entry: &BackboneEntry, device: &Device) -> Result<Box<dyn Backbone>> {
        // As a batch is made: images of another size are stretched linearly.
        let interpolation = Interpolation::Bilinear;
        let stretched = |size| Preprocess { interpolation, ..Preprocess::usual(size) };
        let preprocess = self.image_size.map(stretched);
        let positions =
            if preprocess.is_some() { Positions::Interpolate } else { Positions::Exact };
        let num_classes = Some(self.num_classes);
        let options =
            BuildOptions { preprocess, positions, num_classes, ..BuildOptions::new(device) };
        Ok(entry.build(Weights::Random(self.seed), &options)?)
    }

    /// `arrays` with a drawn classifier where theirs has another number of classes.
    fn with_head(&self, mut arrays: Checkpoint, entry: &BackboneEntry) -> Result<Checkpoint> {
        let drawn = Self { image_size: None, ..self.clone() }.drawn(entry, &Device::cpu())?;
        let head: Vec<_> =
            drawn.params().iter().filter(|param| matches!(param.role(), Role::Head(_))).collect();
        let fits = head.iter().all(|param| {
            arrays.get(param.name()).is_some_and(|array| array.shape == param.tensor().shape())
        });
        if fits {
            return Ok(arrays);
        }
        for param in head {
            arrays.remove(param.name());
            let (shape, data) = (param.tensor().shape().to_vec(), param.tensor().to_vec()?);
            // The name was just taken out, so it cannot be there twice.
            drop(arrays.insert(param.name().to_owned(), Array { shape, dtype: Dtype::F32, data }));
        }
        Ok(arrays)
    }
}
