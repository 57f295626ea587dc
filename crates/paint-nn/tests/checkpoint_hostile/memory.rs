//! How much memory reading a file may take.

use std::hint::black_box;
use std::panic::catch_unwind;

use super::peak::{allowed, peak_of};

/// Messages and tables, of which the damaged files here need 12 KiB at most.
const SPARE: usize = 64 << 10;

/// What `f` returns; panics if it held more at one time than a file of this length may take.
pub(crate) fn within<T>(length: usize, f: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(f);
    assert!(peak <= allowed(length, SPARE), "{peak} bytes were held for a file of {length}");
    result
}

fn hold(bytes: usize) {
    black_box(vec![1_u8; bytes]);
}

#[test]
fn a_reader_that_holds_too_much_is_caught() {
    let most = allowed(1000, SPARE);
    within(1000, || hold(most));
    assert!(catch_unwind(|| within(1000, || hold(most + 1))).is_err());
    assert!(catch_unwind(|| within(100, || hold(1 << 20))).is_err());
}

#[test]
fn what_is_held_at_one_time_counts_and_what_was_freed_does_not() {
    let ((), peak) = peak_of(|| (0..10).for_each(|_| hold(5000)));
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
