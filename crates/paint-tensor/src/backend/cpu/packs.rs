//! Weights that small products read again and again, kept in packed form.
//!
//! Packing its right operand is a large part of a product of few rows. What is asked for a second time in the same form
//! stays packed beside its numbers, until they are dropped or changed.

#![cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no other kernel packs"))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gemm::{Operand, Size};
use super::kernel::Kernel;
use super::slab::Block;

/// Products of more rows pack anew: that is a small part of their time, and the memory is worth more.
pub(super) const FEW_ROWS: usize = 512;
/// Floats that all kept forms together may take: 64 MiB, first come, first kept. What does not fit the caches takes longer
/// to read in three parts, half as large again, than to pack.
const MOST: usize = 16 << 20;
/// Forms of one block: a weight is read as it is and transposed.
const FORMS: usize = 2;

/// Floats that are kept.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Which part of a block is packed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    kernel: Kernel,
    /// Whether in 8 bits.
    rounded: bool,
    /// `[k, n]`.
    shape: [usize; 2],
    steps: [usize; 2],
    address: usize,
}

impl Form {
    pub(super) fn new(kernel: Kernel, Size { n, k, .. }: Size, b: Operand) -> Self {
        let address = b.data.as_ptr().addr();
        Self { kernel, rounded: false, shape: [k, n], steps: [b.row, b.col], address }
    }

    /// That of 8 bits, which has one kernel.
    pub(super) fn rounded(size: Size, b: Operand) -> Self {
        Self { rounded: true, ..Self::new(Kernel::Avx512, size, b) }
    }
}

/// The packed forms of one block.
#[derive(Default)]
pub(super) struct Packs(Mutex<Vec<(Form, Option<Arc<Block>>)>>);

impl Packs {
    fn lock(&self) -> MutexGuard<'_, Vec<(Form, Option<Arc<Block>>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The packed form, if it is kept; what is asked for a second time is packed into `len` floats and kept, where
    /// there is room for it.
    pub(super) fn get(
        &self,
        form: Form,
        len: usize,
        pack: impl FnOnce() -> Block,
    ) -> Option<Arc<Block>> {
        {
            let mut forms = self.lock();
            match forms.iter().find(|(known, _)| *known == form) {
                Some((_, Some(kept))) => return Some(Arc::clone(kept)),
                Some((_, None)) => (),
                None => {
                    if forms.len() < FORMS {
                        forms.push((form, None));
                    }
                    return None;
                }
            }
        }
        let room = |kept: usize| Some(kept + len).filter(|total| *total <= MOST);
        KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        let packed = Arc::new(pack());
        let mut forms = self.lock();
        let free = forms.iter_mut().find(|(known, kept)| *known == form && kept.is_none());
        if let Some((_, kept)) = free {
            *kept = Some(Arc::clone(&packed));
        } else {
            // Another thread was faster.
            KEPT.fetch_sub(len, Ordering::Relaxed);
        }
        Some(packed)
    }

    /// The form in 8 bits, which is a quarter of the numbers and always kept.
    pub(super) fn keep(&self, form: Form, pack: impl FnOnce() -> Block) -> Arc<Block> {
        let found = |forms: &[(Form, Option<Arc<Block>>)]| {
            forms.iter().find(|(known, _)| *known == form).and_then(|(_, kept)| kept.clone())
        };
        if let Some(kept) = found(&self.lock()) {
            return kept;
        }
        // Not under the lock: a thread that waits for others to pack may take a task that asks for the same.
        let packed = Arc::new(pack());
        let mut forms = self.lock();
        // Another thread may have been faster.
        found(&forms).unwrap_or_else(|| {
            KEPT.fetch_add(packed.as_slice().len(), Ordering::Relaxed);
            forms.push((form, Some(Arc::clone(&packed))));
            packed
        })
    }

    /// Forgets all: the numbers change.
    pub(super) fn clear(&mut self) {
        let forms = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, kept) in forms.drain(..) {
            let len = kept.map_or(0, |kept| kept.as_slice().len());
            KEPT.fetch_sub(len, Ordering::Relaxed);
        }
    }
}

impl Drop for Packs {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(address: usize) -> Form {
        Form { kernel: Kernel::Portable, rounded: false, shape: [1, 1], steps: [1, 1], address }
    }

    fn block(value: f32, len: usize) -> Block {
        let mut block = Block::take(len);
        block.as_mut_slice().fill(value);
        block
    }

    /// What is found, or packed because nothing was.
    fn get(packs: &Packs, at: usize, len: usize, value: f32) -> f32 {
        let pack = || block(value, len);
        packs.get(form(at), len, pack).map_or(value, |kept| kept.as_slice()[0])
    }

    #[test]
    fn a_form_is_kept_from_the_second_time_on_until_the_numbers_change() {
        let mut packs = Packs::default();
        assert!(packs.get(form(1), 4, || unreachable!("not for a single product")).is_none());
        assert_eq!([2.0, 3.0].map(|value| get(&packs, 1, 4, value)), [2.0, 2.0]);
        packs.clear();
        assert_eq!([4.0, 5.0, 6.0].map(|value| get(&packs, 1, 4, value)), [4.0, 5.0, 5.0]);
    }

    #[test]
    fn the_form_in_eight_bits_is_kept_from_the_first_time_on() {
        let mut packs = Packs::default();
        let mut keep = |value: f32, clear: bool| {
            let kept = packs.keep(form(1), || block(value, 4)).as_slice()[0];
            if clear {
                packs.clear();
            }
            kept
        };
        assert_eq!([keep(2.0, false), keep(3.0, true), keep(4.0, false)], [2.0, 2.0, 4.0]);
    }

    #[test]
    fn other_forms_are_kept_apart_and_no_more_than_two() {
        let packs = Packs::default();
        for at in 0..4 {
            let [first, again, third] =
                [at as f32, 10.0 + at as f32, 20.0].map(|value| get(&packs, at, 4, value));
            assert_eq!((first, again), (at as f32, 10.0 + at as f32));
            assert_eq!(third, if at < FORMS { again } else { 20.0 });
        }
    }

    #[test]
    fn what_is_larger_than_the_room_is_never_kept() {
        let packs = Packs::default();
        assert_eq!([1.0, 2.0, 3.0].map(|value| get(&packs, 1, MOST + 1, value)), [1.0, 2.0, 3.0]);
    }
}
