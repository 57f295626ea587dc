//! Pieces of memory, and an arena over a supply that only counts.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn pieces_are_cut_joined_and_used_again() {
    let mut pieces = Pieces::default();
    pieces.segments.insert(4096);
    pieces.insert(4096, 4096);
    let [a, b, c] = [1024, 512, 1024].map(|bytes| pieces.take(bytes).unwrap());
    assert_eq!([a, b, c], [4096, 5120, 5632]);
    pieces.give(a, 1024);
    pieces.give(c, 1024);
    assert_eq!(pieces.take(1024), Some(c), "the last of its size");
    pieces.give(c, 1024);
    assert_eq!(pieces.take(512), Some(6656), "what was never cut before what must be joined");
    pieces.give(6656, 512);
    pieces.give(b, 512);
    assert_eq!(pieces.take(4096), Some(4096), "one piece again");
    pieces.give(4096, 4096);
    assert_eq!((pieces.memory.used, pieces.memory.peak), (0, 4096));
}

#[test]
fn a_tight_range_hands_out_what_was_given_back_before_anything_new() {
    let mut pieces = Pieces { tight: true, ..Pieces::default() };
    pieces.insert(4096, 1 << 20);
    let [a, b] = [1024, 512].map(|bytes| pieces.take(bytes).unwrap());
    pieces.give(a, 1024);
    assert_eq!(pieces.take(512), Some(a), "the smallest piece that fits");
    pieces.give(a, 512);
    pieces.give(b, 512);
    assert_eq!((pieces.take(1536), pieces.end), (Some(a), 4096 + 1536));
}

#[test]
fn neighbouring_segments_stay_apart() {
    let mut pieces = Pieces::default();
    for at in [4096, 8192] {
        pieces.segments.insert(at);
        pieces.insert(at, 4096);
    }
    let (a, b) = (pieces.take(4096).unwrap(), pieces.take(4096).unwrap());
    pieces.give(a, 4096);
    pieces.give(b, 4096);
    assert_eq!(pieces.take(8192), None);
    assert_eq!(pieces.by_address.len(), 2);
}

/// Hands out addresses up to a number of bytes.
struct Limited {
    left: AtomicUsize,
    calls: AtomicUsize,
}

impl Limited {
    fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes), calls: AtomicUsize::new(0) })
    }
}

impl Supply for Limited {
    fn allocate(&self, bytes: usize) -> Result<Option<u64>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) as u64;
        let enough = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        Ok(enough.ok().map(|_| (call + 1) << 40))
    }

    fn total(&self) -> usize {
        4 * SEGMENT
    }
}

#[test]
fn an_arena_grows_by_segments_and_hands_blocks_out_again() {
    let supply = Limited::new(2 * SEGMENT);
    let arena = Arena::new(Arc::clone(&supply) as Arc<dyn Supply>);
    let first = arena.take(1000).unwrap();
    let address = first.address;
    let second = arena.take(1000).unwrap();
    assert_eq!(second.address, address + 1024, "blocks begin at multiples of 512");
    assert_eq!((arena.memory().used, arena.memory().reserved), (2048, SEGMENT));
    drop(first);
    assert_eq!(arena.take(900).unwrap().address, address);
    let large = arena.take(SEGMENT).unwrap();
    assert_eq!((large.wanted, arena.memory().reserved), (SEGMENT, 2 * SEGMENT));
    drop((second, large));
    assert_eq!((arena.memory().used, supply.calls.load(Ordering::Relaxed)), (0, 2));
    arena.reset_peak();
    assert_eq!(arena.memory().peak, 0);
}

#[test]
fn the_last_of_the_memory_is_taken_without_rounding() {
    let arena = Arena::new(Limited::new(SEGMENT / 2));
    assert_eq!(arena.take(SEGMENT / 4).unwrap().wanted, SEGMENT / 4);
    assert_eq!(arena.memory().reserved, SEGMENT / 4);
}

#[test]
fn a_full_memory_says_what_is_in_use() {
    let arena = Arena::new(Limited::new(SEGMENT));
    let _held = arena.take(SEGMENT / 2).unwrap();
    for wanted in [SEGMENT, 5 * SEGMENT, usize::MAX] {
        let Err(Error::OutOfMemory { wanted: reported, used, total }) = arena.take(wanted) else {
            panic!("{wanted} bytes were handed out");
        };
        assert_eq!((reported, used, total), (wanted, SEGMENT / 2, 4 * SEGMENT));
    }
}

#[test]
fn a_fixed_range_does_not_grow_and_knows_its_extent() {
    let arena = Arena::over(1 << 20, 4096);
    assert_eq!(arena.extent(1 << 20), 0);
    let blocks = [arena.take(1024).unwrap(), arena.take(2048).unwrap()];
    assert_eq!(arena.extent(1 << 20), 3072);
    assert!(arena.take(2048).is_err());
    assert!(arena.holds(&blocks[0]) && !Arena::over(0, 1).holds(&blocks[0]));
}
