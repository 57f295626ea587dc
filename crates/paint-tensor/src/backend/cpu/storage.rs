//! Storages of this backend, as slices.

use super::Slab;
use super::packs::Packs;
use crate::backend::Storage;

fn slab(x: &Storage) -> &Slab {
    match x {
        Storage::Cpu(slab) => slab,
        #[cfg(feature = "cuda")]
        Storage::Cuda(_) => unreachable!("operations check that their inputs share a device"),
    }
}

/// The elements of a storage.
pub(super) fn host(x: &Storage) -> &[f32] {
    slab(x).as_slice()
}

/// The same for writing, if nothing else refers to them.
pub(super) fn host_mut(x: &mut Storage) -> Option<&mut [f32]> {
    match x {
        Storage::Cpu(slab) => slab.as_mut_slice(),
        #[cfg(feature = "cuda")]
        Storage::Cuda(_) => unreachable!("operations check that their inputs share a device"),
    }
}

/// What products keep of a storage.
pub(super) fn packs(x: &Storage) -> &Packs {
    slab(x).packs()
}

/// A new storage whose every element `write` sets.
pub(super) fn build(len: usize, write: impl FnOnce(&mut [f32])) -> Storage {
    Storage::Cpu(Slab::build(len, write))
}

/// Two outputs written together.
pub(super) fn build2(
    len: [usize; 2],
    write: impl FnOnce(&mut [f32], &mut [f32]),
) -> (Storage, Storage) {
    let mut second = None;
    let first = build(len[0], |first| second = Some(build(len[1], |second| write(first, second))));
    (first, second.expect("set while the first was written"))
}
