//! A matrix whose parts several tasks write at once.

#![expect(unsafe_code, reason = "no safe slice describes some columns of every row")]

use std::marker::PhantomData;
use std::ops::Range;

/// A matrix of rows of `width` elements, of which each task writes what no other one does.
pub(super) struct Columns<'a> {
    start: *mut f32,
    len: usize,
    width: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: whoever asks for a part answers for the elements that it reads and writes.
unsafe impl Sync for Columns<'_> {}

impl<'a> Columns<'a> {
    pub(super) fn new(matrix: &'a mut [f32], width: usize) -> Self {
        Self { start: matrix.as_mut_ptr(), len: matrix.len(), width, matrix: PhantomData }
    }

    /// Some columns of a row.
    ///
    /// # Safety
    /// No other slice of these elements is in use.
    #[expect(clippy::mut_from_ref, reason = "the caller answers for overlaps")]
    pub(super) unsafe fn part(&self, row: usize, columns: Range<usize>) -> &mut [f32] {
        let at = row * self.width + columns.start;
        assert!(columns.end <= self.width && at + columns.len() <= self.len);
        // SAFETY: inside the matrix, and the caller answers for overlaps.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), columns.len()) }
    }

    /// A row.
    ///
    /// # Safety
    /// As for [`Self::part`].
    #[cfg(target_arch = "x86_64")]
    #[expect(clippy::mut_from_ref, reason = "the caller answers for overlaps")]
    pub(super) unsafe fn row(&self, row: usize) -> &mut [f32] {
        // SAFETY: as the caller says.
        unsafe { self.part(row, 0..self.width) }
    }

    /// The whole matrix.
    ///
    /// # Safety
    /// Nobody writes to it any more.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn all(&self) -> &[f32] {
        // SAFETY: the length is that of the matrix, and the caller answers for writes.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The address of an element, to be fetched ahead.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn address(&self, at: usize) -> *const f32 {
        self.start.wrapping_add(at)
    }
}
