//! The model that is served: what all its streams share.

use std::path::Path;
use std::sync::Arc;

use paint_data::Image;
use paint_run::model::{ImageFit, class_names};
use paint_run::{Deployment, deployment};
use paint_tensor::Tensor;

use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::storage::Storage;

/// The model, its preprocessing and its method.
pub(crate) struct Model {
    pub(crate) name: String,
    /// Where the states of its streams are.
    pub(crate) storage: Storage,
    pub(crate) metrics: Metrics,
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) class_names: Vec<String>,
    /// Height and width.
    pub(crate) size: [usize; 2],
    pub(crate) classes: usize,
    fit: ImageFit,
}

impl Model {
    pub(crate) fn open(
        name: String,
        config: deployment::Config,
        storage: Storage,
    ) -> paint_run::Result<Self> {
        let deployment = Deployment::open(config)?;
        let spec = deployment.model().spec();
        let model = &deployment.config.model;
        Ok(Self {
            name,
            storage,
            metrics: Metrics::default(),
            class_names: class_names(&model.weights)?,
            size: spec.image_size,
            classes: spec.num_classes,
            fit: ImageFit::new(&spec.preprocess, model.resize)?,
            deployment: Arc::new(deployment),
        })
    }

    /// Floats of one image.
    pub(crate) fn image_len(&self) -> usize {
        3 * self.size[0] * self.size[1]
    }

    /// Writes an image of any size as the model takes it, `[3, H, W]` in [0, 1].
    pub(crate) fn place(&self, image: Image, out: &mut [f32]) -> Result<(), Fault> {
        self.fit.apply(image)?.to_chw(out);
        Ok(())
    }

    /// Decodes a JPEG, PNG, WebP or BMP and writes it as the model takes it; `name` is what errors call it.
    pub(crate) fn place_encoded(
        &self,
        bytes: &[u8],
        name: &str,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        self.place(Image::decode_upright(bytes, Path::new(name))?, out)
    }

    /// A batch `[B, 3, H, W]` on the model's device, which `write` writes.
    pub(crate) fn batch(
        &self,
        count: usize,
        write: impl FnOnce(&mut [f32]) -> Result<(), Fault>,
    ) -> Result<Tensor, Fault> {
        let [height, width] = self.size;
        Tensor::build([count, 3, height, width], self.deployment.device(), write)
    }

    /// A batch of pixels that were kept.
    pub(crate) fn upload(&self, pixels: Vec<f32>) -> Result<Tensor, Fault> {
        let [height, width] = self.size;
        let shape = [pixels.len() / self.image_len(), 3, height, width];
        Ok(Tensor::from_vec(pixels, shape, self.deployment.device())?)
    }
}
