//! The ImageNet-C layout: `<corruption>/<severity>/<path of the image>.JPEG`, quality 85.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use paint_data::{
    Image, dataset,
    image::{Filter, Preprocess},
    write_unflushed,
};
use rayon::prelude::*;

use super::{Job, progress};
use crate::Usage;

const QUALITY: u8 = 85;

/// Writes what is missing; the number of files of the whole layout.
pub(super) fn write(job: &Job, input: &Path, out: &Path, crop: bool) -> anyhow::Result<usize> {
    let images = dataset::images_below(input)?;
    let names: Vec<PathBuf> = images.iter().map(|path| jpeg_name(path)).collect();
    let mut sorted: Vec<&PathBuf> = names.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(
            Usage(format!("two images would both be written as {}", pair[0].display())).into()
        );
    }
    let variants: Vec<_> =
        job.corruptions.iter().flat_map(|c| job.severities.iter().map(move |&s| (*c, s))).collect();
    let files = images.len() * variants.len();
    let bar = progress(files);
    images.par_iter().zip(&names).enumerate().try_for_each(
        |(index, (path, name))| -> anyhow::Result<()> {
            let mut clean = None;
            for &(corruption, severity) in &variants {
                let target = out.join(corruption.name).join(severity.to_string()).join(name);
                if !target.exists() {
                    // Decoded only if something of it is missing.
                    let image = match &clean {
                        Some(image) => image,
                        None => clean.insert(cropped(Image::open(&input.join(path))?, crop)?),
                    };
                    let corrupted = job.corrupt(image, corruption, severity, index)?;
                    if let Some(folder) = target.parent() {
                        std::fs::create_dir_all(folder)?;
                    }
                    write_unflushed(&target, |file| corrupted.write_jpeg(file, QUALITY))?;
                    job.written.fetch_add(1, Ordering::Relaxed);
                }
                bar.inc(1);
            }
            Ok(())
        },
    )?;
    bar.finish_and_clear();
    Ok(files)
}

/// The image as ImageNet-C starts from it.
pub(super) fn cropped(image: Image, crop: bool) -> paint_data::Result<Image> {
    if crop {
        Preprocess::resize_and_crop(256, 224, Filter::Bilinear).apply(image)
    } else {
        Ok(image)
    }
}

/// The name of a JPEG stays; any other extension becomes `JPEG`.
fn jpeg_name(path: &Path) -> PathBuf {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if extension == "jpg" || extension == "jpeg" {
        path.to_path_buf()
    } else {
        path.with_extension("JPEG")
    }
}
