//! Images to try things with.

use paint_data::corruption::{CORRUPTIONS, Table, by_name};
use paint_data::{Dataset as _, Image, dataset};
use paint_rng::Seed;

use crate::Result;

/// The image under one of the [`corruptions`], at a severity of 1 to 5. CIFAR-10-C's strengths are used up to a short
/// side of 64 pixels, ImageNet-C's above. The same seed gives the same pixels.
///
/// ```
/// # fn main() -> paint_tta::Result<()> {
/// let image = &paint_tta::embedded_images(1)?[0];
/// let foggy = paint_tta::corrupt(image, "fog", 5, 0)?;
/// assert_eq!((foggy.width(), foggy.height()), (image.width(), image.height()));
/// assert_ne!(foggy.pixels(), image.pixels());
/// # Ok(())
/// # }
/// ```
pub fn corrupt(image: &Image, corruption: &str, severity: u8, seed: u64) -> Result<Image> {
    corrupt_at(image, corruption, severity, (seed, 0))
}

/// The images under one corruption, each with draws of its own; the first as [`corrupt`] gives it.
pub fn corrupt_all(
    images: &[Image],
    corruption: &str,
    severity: u8,
    seed: u64,
) -> Result<Vec<Image>> {
    let images = images.iter().zip(0..);
    images.map(|(image, at)| corrupt_at(image, corruption, severity, (seed, at))).collect()
}

fn corrupt_at(
    image: &Image,
    corruption: &str,
    severity: u8,
    (seed, index): (u64, u64),
) -> Result<Image> {
    let corruption = by_name(corruption)?;
    let table = Table::for_size(image.width(), image.height());
    let mut rng = corruption.stream(Seed(seed), severity, index);
    Ok(corruption.apply(image, severity, table, &mut rng)?)
}

/// The names of the corruptions: the fifteen of the benchmarks, then the four on which settings are chosen.
pub fn corruptions() -> impl Iterator<Item = &'static str> {
    CORRUPTIONS.iter().map(|corruption| corruption.name)
}

/// The first images of CIFAR-10's test set, of which this library has 1,000.
pub fn embedded_images(count: usize) -> Result<Vec<Image>> {
    let images = dataset::embedded()?;
    let indices = 0..count.min(images.len(0));
    Ok(indices
        .map(|index| Ok(images.sample(0, index)?.image))
        .collect::<paint_data::Result<_>>()?)
}
