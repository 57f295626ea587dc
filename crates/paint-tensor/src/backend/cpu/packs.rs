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
/// Floats that all kept forms in `f32` may take together: 64 MiB, first come, first kept. What does not fit the caches takes longer
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
    /// `[k, n]`.
    shape: [usize; 2],
    steps: [usize; 2],
    address: usize,
}

impl Form {
    pub(super) fn new(kernel: Kernel, Size { n, k, .. }: Size, b: Operand) -> Self {
        let address = b.data.as_ptr().addr();
        Self { kernel, shape: [k, n], steps: [b.row, b.col], address }
    }
}

/// The packed forms of one block.
#[derive(Default)]
pub(super) struct Packs {
    exact: Mutex<Vec<(Form, Option<Arc<Block>>)>>,
    rounded: Mutex<Vec<(Form, Arc<Block>)>>,
}

fn lock<T>(forms: &Mutex<T>) -> MutexGuard<'_, T> {
    forms.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Packs {
    /// The packed form, if it is kept; what is asked for a second time is packed into `len` floats and kept, where
    /// there is room for it.
    pub(super) fn get(
        &self,
        form: Form,
        len: usize,
        pack: impl FnOnce() -> Block,
    ) -> Option<Arc<Block>> {
        {
            let mut forms = lock(&self.exact);
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
        let mut forms = lock(&self.exact);
        let free = forms.iter_mut().find(|(known, kept)| *known == form && kept.is_none());
        if let Some((_, kept)) = free {
            *kept = Some(Arc::clone(&packed));
        } else {
            // Another thread was faster.
            KEPT.fetch_sub(len, Ordering::Relaxed);
        }
        Some(packed)
    }

    /// The form in 8 bits, a quarter of the numbers, which is always kept.
    pub(super) fn rounded(&self, form: Form, pack: impl FnOnce() -> Block) -> Arc<Block> {
        let find = |forms: &[(Form, Arc<Block>)]| {
            forms.iter().find(|(known, _)| *known == form).map(|(_, kept)| Arc::clone(kept))
        };
        if let Some(kept) = find(&lock(&self.rounded)) {
            return kept;
        }
        // Not under the lock: a thread that waits for others to pack may take a task that asks for the same.
        let packed = Arc::new(pack());
        let mut forms = lock(&self.rounded);
        // Another thread may have been faster.
        find(&forms).unwrap_or_else(|| {
            forms.push((form, Arc::clone(&packed)));
            packed
        })
    }

    /// Forgets all: the numbers change.
    pub(super) fn clear(&mut self) {
        let forms = self.exact.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, kept) in forms.drain(..) {
            let len = kept.map_or(0, |kept| kept.as_slice().len());
            KEPT.fetch_sub(len, Ordering::Relaxed);
        }
        self.rounded.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
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
        Form { kernel: Kernel::Portable, shape: [1, 1], steps: [1, 1], address }
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
    fn the_form_in_eight_bits_is_kept_from_the_first_time_on_and_takes_no_room_of_others() {
        let mut packs = Packs::default();
        let rounded = |packs: &Packs, at: usize, value: f32| {
            packs.rounded(form(at), || block(value, 4)).as_slice()[0]
        };
        assert_eq!([2.0, 3.0].map(|value| rounded(&packs, 1, value)), [2.0, 2.0]);
        assert_eq!([0, 1, 2].map(|at| rounded(&packs, at, 5.0)), [5.0, 2.0, 5.0]);
        for at in 0..FORMS {
            assert_eq!([6.0, 7.0, 8.0].map(|value| get(&packs, at, 4, value)), [6.0, 7.0, 7.0]);
        }
        packs.clear();
        assert_eq!(rounded(&packs, 1, 4.0), 4.0);
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
