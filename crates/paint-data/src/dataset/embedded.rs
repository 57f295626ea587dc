//! The images built into the program. `assets/PROVENANCE.md` gives their origin.

use std::path::Path;

use super::{Counts, DatasetEntry, Domain, Info, Memory, Sample, Split};
use crate::{Error, Image, Result};

/// 25 rows of 40 images, lossless.
static IMAGES: &[u8] = include_bytes!("../../assets/cifar10_test_1000/images.webp");
static LABELS: &[u8] = include_bytes!("../../assets/cifar10_test_1000/labels.bin");
const SIDE: usize = 32;
const COLUMNS: usize = 40;

/// The names of CIFAR-10's classes.
pub const CIFAR10_CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The name of a class of CIFAR-10.
pub(super) fn cifar10_class_name(class: usize) -> Option<&'static str> {
    CIFAR10_CLASSES.get(class).copied()
}

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "embedded",
    what: "the first 1,000 test images of CIFAR-10, inside the program; split `train` is the last 500 of them",
    benchmark: Some("cifar10"),
    options: &["split"],
    is_named: false,
    is_inside: true,
    is_files: false,
    clean_at: None,
    class_name: cifar10_class_name,
    open: |path, options| {
        if !path.as_os_str().is_empty() {
            return Err(Error::Argument {
                what: "path of the embedded images",
                expected: "none: they are inside the program".into(),
                got: path.display().to_string(),
            });
        }
        Ok(Box::new(match options.split {
            Split::Test => embedded()?,
            Split::Train => part(STREAMED)?,
        }))
    },
    verify: |_, _| Ok(Counts::of(&embedded()?)),
};

/// Streams use at most this many images; the rest serve methods that need source images.
const STREAMED: usize = 500;

/// The first 1,000 test images of CIFAR-10.
pub fn embedded() -> Result<Memory> {
    part(0)
}

/// The images from `start` on.
fn part(start: usize) -> Result<Memory> {
    let mosaic = Image::decode(IMAGES, Path::new("embedded images"))?;
    let row = mosaic.width() * 3;
    let tile = |index: usize| {
        let corner = index / COLUMNS * SIDE * row + index % COLUMNS * SIDE * 3;
        let lines = (0..SIDE).map(|y| corner + y * row);
        let pixels = lines.flat_map(|at| &mosaic.pixels()[at..at + SIDE * 3]).copied().collect();
        Image::new(SIDE, SIDE, pixels)
    };
    let sample = |(index, label): (usize, &u8)| {
        Ok(Sample { image: tile(index)?, label: Some(usize::from(*label)) })
    };
    let samples = LABELS.iter().enumerate().skip(start).map(sample).collect::<Result<_>>()?;
    let info = Info {
        name: ENTRY.name,
        num_classes: CIFAR10_CLASSES.len(),
        class_indices: None,
        class_names: None,
    };
    Memory::new(info, vec![(Domain::clean(), samples)])
}
