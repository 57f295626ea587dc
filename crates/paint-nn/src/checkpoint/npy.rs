//! NumPy arrays as weights: `.npy`, and `.npz`, a zip archive of them.

use paint_files::npy::{Npy, NpyArray};
use paint_files::zip::Archive;
use paint_files::{Budget, Fault, Source};

use super::array::{Array, View, row_major};
use super::{Checkpoint, Format};

const EXTENSION: &str = ".npy";

/// Whether an archive holds arrays rather than something else.
pub(super) fn is_npz(archive: &Archive) -> bool {
    let entries = archive.entries();
    !entries.is_empty() && entries.iter().all(|entry| entry.name.ends_with(EXTENSION))
}

pub(super) fn decode_npz(archive: &Archive, budget: &mut Budget) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new(Format::Npz);
    for entry in archive.entries() {
        let name = entry.name.strip_suffix(EXTENSION).unwrap_or(&entry.name);
        let content = archive.content(entry, budget)?;
        let array = match Npy::open(&content) {
            Ok(Npy::Array(array)) => elements(&array, budget),
            Ok(Npy::Other(kind)) => {
                checkpoint.skipped.push((name.to_owned(), kind));
                continue;
            }
            Err(fault) => Err(fault),
        };
        checkpoint.insert(name.to_owned(), array.map_err(|fault| fault.in_array(name))?)?;
    }
    Ok(checkpoint)
}

/// A single array has no name; it is called `array`.
pub(super) fn decode_npy(source: &Source) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new(Format::Npy);
    match Npy::open(source)? {
        Npy::Array(array) => {
            let array = elements(&array, &mut Budget::for_file(source.len()))?;
            checkpoint.insert("array".to_owned(), array)?;
        }
        Npy::Other(kind) => return Err(Fault::invalid("element type", "numbers", kind)),
    }
    Ok(checkpoint)
}

fn elements(array: &NpyArray, budget: &mut Budget) -> Result<Array, Fault> {
    let NpyArray { shape, dtype, data, .. } = array;
    let swapped;
    let storage = if array.big_endian {
        budget.charge("the array", data.len())?;
        let mut bytes = data.read_all()?;
        bytes.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
        swapped = Source::from(bytes);
        &swapped
    } else {
        data
    };
    let strides = if array.fortran_order {
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        row_major(&reversed).into_iter().rev().collect()
    } else {
        row_major(shape)
    };
    View { storage, dtype: *dtype, offset: 0, shape, strides: &strides }.read(budget)
}
