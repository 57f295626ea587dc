//! Source statistics of the model that was written, beside it.

use std::path::Path;

use anyhow::Result;
use paint_methods::SourceStatistics;
use paint_rng::Seed;
use paint_run::config::Model;
use paint_run::model;
use paint_tensor::Device;
use paint_train::{LabelledImages, WEIGHTS};

/// The most training images that they are made from.
const MOST: usize = 1000;

/// Writes them into the folder of a finished training, where `keel` looks for them; nothing for a network whose tokens
/// have none, or from a single image.
pub(super) fn write(out: &Path, data: &LabelledImages, seed: u64, device: &Device) -> Result<()> {
    let weights = out.join(WEIGHTS);
    // The weights as they were written: half precision rounds them.
    let model = model::open(&mut Model::new(&weights), device)?;
    let n = data.labels.len();
    if model.vit_config().is_none() || n < 2 {
        return Ok(());
    }
    let mut chosen = Seed(seed).derive("train/statistics", &[]).permutation(n);
    chosen.truncate(MOST);
    let images = data.stretched(&chosen, model.spec().image_size)?;
    Ok(SourceStatistics::collect(&*model, &images)?.save(model::statistics_path(&weights))?)
}
