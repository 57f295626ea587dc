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
fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = f();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// What `f` returns; panics if it held more than `most` bytes at one time.
pub(crate) fn within<T>(most: usize, f: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(f);
    assert!(peak <= most, "{peak} bytes were held, {most} are allowed");
    result
}

/// What decoding a file of that length may hold. A pickle takes up to 50 bytes for each of its own bytes, all of them
/// lists at worst, and can be the whole file; arrays are limited to 16 times the file, and as much again while a
/// block is converted. The rest is for messages and tables, of which the damaged files here need 12 KiB at most.
pub(crate) fn allowed(length: usize) -> usize {
    56 * length + (64 << 10)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::panic::catch_unwind;

    use super::*;

    fn hold(bytes: usize) {
        black_box(vec![1_u8; bytes]);
    }

    #[test]
    fn a_reader_that_holds_too_much_is_caught() {
        within(allowed(1000), || hold(allowed(1000)));
        assert!(catch_unwind(|| within(allowed(1000), || hold(allowed(1000) + 1))).is_err());
        assert!(catch_unwind(|| within(allowed(100), || hold(1 << 20))).is_err());
    }

    #[test]
    fn what_is_held_at_one_time_counts_and_what_was_freed_does_not() {
        let (_, peak) = peak_of(|| (0..10).for_each(|_| hold(5000)));
        assert_eq!(peak, 5000);
        let (both, peak) = peak_of(|| (vec![0_u8; 3000], vec![0_u16; 1000]));
        assert_eq!((both.0.len(), peak), (3000, 5000));
        let (grown, peak) = peak_of(|| {
            let mut grown = vec![0_u8; 4000];
            grown.reserve_exact(4000);
            grown
        });
        assert_eq!((grown.len(), peak), (4000, 12_000), "the old block and the new one");
    }
}
