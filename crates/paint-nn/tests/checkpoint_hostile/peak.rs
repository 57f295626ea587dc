//! An allocator that remembers how much a thread held at most. Decoding stays on the thread that asks for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

pub(crate) struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn change(bytes: isize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

#[expect(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts")]
// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(layout.size() as isize);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(-(layout.size() as isize));
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What `f` returns, and the most bytes it held at one time beyond what was held before. A reallocation counts as
/// holding both blocks, as it may have to.
pub(crate) fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = f();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// What decoding a file of that length may hold. A pickle takes up to 50 bytes for each of its own bytes, all of them
/// lists at worst, and can be the whole file; arrays are limited to 16 times the file, and as much again while a block
/// is converted. `spare` is for what does not grow with the file.
pub(crate) fn allowed(length: usize, spare: usize) -> usize {
    56 * length + spare
}
