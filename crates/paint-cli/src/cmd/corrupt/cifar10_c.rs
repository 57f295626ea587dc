//! The CIFAR-10-C layout: `<corruption>.npy` of five severity blocks, `[5 N, H, W, 3]`, and `labels.npy`.

use std::{io, path::Path, sync::atomic::Ordering};

use paint_data::{
    Dataset, Image, NpyWriter,
    corruption::Corruption,
    dataset::{DatasetEntry, Options},
    write_atomically,
};
use rayon::prelude::*;

use super::{Job, progress};
use crate::Usage;

/// Images corrupted together; bounds the memory.
const CHUNK: usize = 1024;

/// Writes what is missing; the number of files of the whole layout.
pub(super) fn write(
    job: &Job,
    row: &DatasetEntry,
    input: &Path,
    out: &Path,
) -> anyhow::Result<usize> {
    let data = (row.open)(input, &Options::default())?;
    let mut files = job.corruptions.len();
    let labels: Option<Vec<usize>> = (0..data.len(0)).map(|index| data.label(0, index)).collect();
    if let Some(labels) = labels {
        files += 1;
        write_labels(job, &labels, &out.join("labels.npy"))?;
    }
    let bar = progress(job.corruptions.len() * job.severities.len() * data.len(0));
    for corruption in &job.corruptions {
        let target = out.join(format!("{}.npy", corruption.name));
        bar.set_message(corruption.name);
        if target.exists() {
            bar.inc((job.severities.len() * data.len(0)) as u64);
            continue;
        }
        // A hundred megabytes that nobody would look for.
        paint_files::remove_leftovers(&target)?;
        write_blocks(job, &*data, corruption, &target, &|images| bar.inc(images as u64))?;
        job.written.fetch_add(1, Ordering::Relaxed);
    }
    bar.finish_and_clear();
    Ok(files)
}

fn write_labels(job: &Job, labels: &[usize], path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let bytes: Option<Vec<u8>> = labels.iter().map(|&label| u8::try_from(label).ok()).collect();
    let bytes =
        bytes.ok_or_else(|| Usage("the cifar-10-c layout holds labels below 256".into()))?;
    write_atomically(path, |out| {
        let mut writer = NpyWriter::new(out, &[job.severities.len() * bytes.len()])?;
        job.severities.iter().try_for_each(|_| writer.write(&bytes))?;
        writer.finish()
    })?;
    job.written.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn write_blocks(
    job: &Job,
    data: &dyn Dataset,
    corruption: &Corruption,
    target: &Path,
    advance: &dyn Fn(usize),
) -> anyhow::Result<()> {
    let first = data.sample(0, 0)?.image;
    let (width, height, len) = (first.width(), first.height(), data.len(0));
    write_atomically(target, |out| {
        let mut writer = NpyWriter::new(out, &[job.severities.len() * len, height, width, 3])?;
        for &severity in &job.severities {
            for start in (0..len).step_by(CHUNK) {
                let corrupt = |index| {
                    let image = data.sample(0, index)?.image;
                    job.corrupt(&image, corruption, severity, index)
                };
                let images = (start..len.min(start + CHUNK)).into_par_iter().map(corrupt);
                let images =
                    images.collect::<paint_data::Result<Vec<Image>>>().map_err(io::Error::other)?;
                for image in &images {
                    if (image.width(), image.height()) != (width, height) {
                        return Err(io::Error::other(format!(
                            "not every image is {height}x{width}, as an array needs"
                        )));
                    }
                    writer.write(image.pixels())?;
                }
                advance(images.len());
            }
        }
        writer.finish()
    })?;
    Ok(())
}
