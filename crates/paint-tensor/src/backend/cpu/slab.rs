//! Host memory that returns to a pool, so that a long stream runs in constant memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::HostMemory;
use super::packs::Packs;

/// 64 bytes: one cache line, one AVX-512 register.
const ALIGN: usize = 16;

/// Beside the most that was ever lent out, the pool may hold one part in so many of it, so that the steps of a stream,
/// once it has settled, usually allocate nothing.
const SPARE: usize = 16;
/// Floats, 8 MiB, the least of that part: the blocks of one image's prediction.
const LEAST_SPARE: usize = 2 << 20;
/// Floats, 32 MiB, the most of it.
const MOST_SPARE: usize = 8 << 20;

/// A cache-line aligned block that returns to the pool when the last user drops it.
pub(super) struct Block {
    memory: HostMemory,
    /// Where the aligned part lies inside `memory`.
    span: Range<usize>,
    packs: Packs,
}

impl Block {
    /// A block of `len` elements with arbitrary content; the caller writes all of it.
    pub(super) fn take(len: usize) -> Self {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = pool.take(len + ALIGN);
        drop(pool);
        let start = memory.as_ptr().align_offset(ALIGN * size_of::<f32>());
        let start = if start < ALIGN { start } else { 0 };
        Self { memory, span: start..start + len, packs: Packs::default() }
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        &self.memory[self.span.clone()]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [f32] {
        self.packs.clear();
        &mut self.memory[self.span.clone()]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        POOL.lock().unwrap_or_else(PoisonError::into_inner).give(memory);
    }
}

/// Free blocks by capacity, and how much is lent out.
struct Pool {
    free: BTreeMap<usize, Vec<HostMemory>>,
    idle: usize,
    lent: usize,
    /// The most that was ever lent out at once.
    peak: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// The bytes of host memory in the pool: those that tensors hold and those that are idle.
pub fn pool_bytes() -> usize {
    let pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    (pool.idle + pool.lent) * size_of::<f32>()
}

impl Pool {
    const fn new() -> Self {
        Self { free: BTreeMap::new(), idle: 0, lent: 0, peak: 0 }
    }

    /// Sizes are rounded up to four steps per power of two, so that batches of slightly different size share blocks.
    fn class(len: usize) -> usize {
        let step = (len.next_power_of_two() / 8).max(64);
        len.next_multiple_of(step)
    }

    fn take(&mut self, len: usize) -> HostMemory {
        let class = Self::class(len);
        // A block up to a quarter larger serves as well.
        let fit = self.free.range(class..=class + class / 4).next().map(|(&capacity, _)| capacity);
        let memory = if let Some(capacity) = fit {
            self.remove(capacity)
        } else {
            self.make_room(class);
            HostMemory::zeros(class)
        };
        self.lent += memory.len();
        self.peak = self.peak.max(self.lent);
        memory
    }

    fn give(&mut self, memory: HostMemory) {
        self.lent -= memory.len();
        self.idle += memory.len();
        self.free.entry(memory.len()).or_default().push(memory);
    }

    fn remove(&mut self, capacity: usize) -> HostMemory {
        let blocks = self.free.get_mut(&capacity).expect("the capacity was found in the map");
        let memory = blocks.pop().expect("empty lists are removed from the map");
        if blocks.is_empty() {
            self.free.remove(&capacity);
        }
        self.idle -= memory.len();
        memory
    }

    /// The most that the pool may hold, idle blocks included, after `class` more.
    fn most(&self, class: usize) -> usize {
        let peak = self.peak.max(self.lent + class);
        peak + (peak / SPARE).clamp(LEAST_SPARE, MOST_SPARE)
    }

    /// Frees idle blocks, largest first, until there is room for a new one.
    fn make_room(&mut self, class: usize) {
        let most = self.most(class);
        while self.lent + self.idle + class > most {
            let Some((&capacity, _)) = self.free.last_key_value() else { return };
            drop(self.remove(capacity));
        }
    }
}

/// A shared part of a block.
#[derive(Clone)]
pub(crate) struct Slab {
    block: Arc<Block>,
    start: usize,
    len: usize,
}

impl Slab {
    /// A new slab whose every element `write` sets.
    pub(super) fn build(len: usize, write: impl FnOnce(&mut [f32])) -> Self {
        let mut block = Block::take(len);
        write(block.as_mut_slice());
        Self { block: Arc::new(block), start: 0, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn part(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "part {start}+{len} of {}", self.len);
        Self { block: Arc::clone(&self.block), start: self.start + start, len }
    }

    /// The address of the first element.
    pub(crate) fn place(&self) -> u64 {
        self.as_slice().as_ptr() as u64
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        &self.block.as_slice()[self.start..self.start + self.len]
    }

    /// What products keep of it.
    pub(super) fn packs(&self) -> &Packs {
        &self.block.packs
    }

    /// The elements for writing, if nothing else refers to the block.
    pub(super) fn as_mut_slice(&mut self) -> Option<&mut [f32]> {
        let (start, len) = (self.start, self.len);
        Arc::get_mut(&mut self.block).map(|block| &mut block.as_mut_slice()[start..start + len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter_or_a_few_lines() {
        for len in 1..5000 {
            let class = Pool::class(len);
            assert!(class >= len && class <= len + (len / 4).max(64), "{len} -> {class}");
        }
    }

    #[test]
    fn sizes_that_keep_changing_do_not_grow_the_pool() {
        for scale in [100, 400] {
            let mut pool = Pool::new();
            let (mut largest, mut busiest) = (0, 0);
            for round in 0..2000_usize {
                let sizes = [1 + (round * 7919) % 50_000, 1 + (round * 104_729) % 50_000, 100_000];
                let lent: Vec<_> = sizes.iter().map(|&size| pool.take(scale * size)).collect();
                lent.into_iter().for_each(|memory| pool.give(memory));
                largest = largest.max(pool.idle + pool.lent);
                busiest = busiest.max(pool.most(0));
            }
            assert!(largest <= busiest && pool.peak < scale * 260_000, "{largest}, {}", pool.peak);
        }
    }

    /// The blocks of a layer lie idle in the next, which has other sizes.
    #[test]
    fn a_stream_that_repeats_itself_allocates_nothing_once_it_has_settled() {
        const M: usize = 1 << 20;
        let mut pool = Pool::new();
        let mut step = || {
            let (kept, mut made) = (pool.take(8 * M), 0);
            for (count, len) in [(90, M), (2, 2 * M), (30, M / 32)] {
                let lent: Vec<HostMemory> = (0..count)
                    .map(|_| {
                        let before = pool.idle + pool.lent;
                        let memory = pool.take(len);
                        made += usize::from(pool.idle + pool.lent != before);
                        memory
                    })
                    .collect();
                lent.into_iter().for_each(|memory| pool.give(memory));
            }
            pool.give(kept);
            made
        };
        assert_eq!([step(), step(), step()], [122, 0, 0]);
    }

    #[test]
    fn blocks_are_aligned_to_cache_lines() {
        let block = Block::take(100);
        assert_eq!(block.as_slice().as_ptr().align_offset(64), 0);
        assert_eq!(block.as_slice().len(), 100);
    }

    #[test]
    fn only_an_unshared_slab_is_written_in_place() {
        let mut slab = Slab::build(4, |out| out.fill(1.0));
        let other = slab.clone();
        assert!(slab.as_mut_slice().is_none());
        drop(other);
        assert!(slab.as_mut_slice().is_some());
    }
}
