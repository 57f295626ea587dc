//! GPU memory: a few large segments, cut and joined by best fit.
//!
//! Batches of different sizes (the confident set of every step) would fill a pool of fixed blocks with leftovers.
//! Pieces that can be joined again keep memory flat over a long stream. Most blocks are asked for again at the same
//! size in the next layer, so a piece first goes onto a shelf of its size, and is joined with its neighbours only
//! when nothing else fits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::buffer::Buffer;
use super::fp8::Rounded;
use crate::backend::Memory;
use crate::{Error, Result};

const ALIGN: usize = 512;
const SEGMENT: usize = 64 << 20;

#[derive(Default)]
struct Pieces {
    /// Free pieces: address to length.
    by_address: BTreeMap<u64, usize>,
    by_length: BTreeSet<(usize, u64)>,
    /// Addresses where a segment begins: pieces are never joined across.
    segments: BTreeSet<u64>,
    /// Pieces given back and not yet joined: lengths in order, with the addresses of each.
    shelves: Vec<(usize, Vec<u64>)>,
    memory: Memory,
    /// The first address past everything that was ever handed out.
    end: u64,
    /// Join pieces at once, without shelves: slower, but needs the least memory.
    tight: bool,
}

impl Pieces {
    fn take(&mut self, bytes: usize) -> Option<u64> {
        let address = self.shelved(bytes).or_else(|| self.best_fit(bytes)).or_else(|| {
            self.clear_shelves();
            self.best_fit(bytes)
        })?;
        self.memory.used += bytes;
        self.memory.peak = self.memory.peak.max(self.memory.used);
        self.end = self.end.max(address + bytes as u64);
        Some(address)
    }

    fn give(&mut self, address: u64, bytes: usize) {
        self.memory.used -= bytes;
        if self.tight {
            return self.join(address, bytes);
        }
        match self.shelves.binary_search_by_key(&bytes, |shelf| shelf.0) {
            Ok(place) => self.shelves[place].1.push(address),
            Err(place) => self.shelves.insert(place, (bytes, vec![address])),
        }
    }

    fn shelved(&mut self, bytes: usize) -> Option<u64> {
        let place = self.shelves.binary_search_by_key(&bytes, |shelf| shelf.0).ok()?;
        self.shelves[place].1.pop()
    }

    fn best_fit(&mut self, bytes: usize) -> Option<u64> {
        let &(length, address) = self.by_length.range((bytes, 0)..).next()?;
        self.remove(address, length);
        if length > bytes {
            self.insert(address + bytes as u64, length - bytes);
        }
        Some(address)
    }

    fn clear_shelves(&mut self) {
        for (bytes, addresses) in std::mem::take(&mut self.shelves) {
            for address in addresses {
                self.join(address, bytes);
            }
        }
    }

    /// Puts a piece back beside its free neighbours.
    fn join(&mut self, mut address: u64, mut bytes: usize) {
        let next = address + bytes as u64;
        if let Some(&length) = self.by_address.get(&next).filter(|_| !self.segments.contains(&next))
        {
            self.remove(next, length);
            bytes += length;
        }
        let before =
            self.by_address.range(..address).next_back().map(|(&at, &length)| (at, length));
        if let Some((at, length)) = before
            && at + length as u64 == address
            && !self.segments.contains(&address)
        {
            self.remove(at, length);
            (address, bytes) = (at, bytes + length);
        }
        self.insert(address, bytes);
    }

    fn insert(&mut self, address: u64, length: usize) {
        self.by_address.insert(address, length);
        self.by_length.insert((length, address));
    }

    fn remove(&mut self, address: u64, length: usize) {
        self.by_address.remove(&address);
        self.by_length.remove(&(length, address));
    }
}

/// Where an arena's segments come from.
pub(super) trait Supply: Send + Sync {
    /// The address of new memory; none where there is no more.
    fn allocate(&self, bytes: usize) -> Result<Option<u64>>;
    /// All the memory there is, in bytes.
    fn total(&self) -> usize;
}

/// The memory of one lane of a GPU, or a fixed range of it.
pub(super) struct Arena {
    /// None for a fixed range, which does not grow.
    supply: Option<Arc<dyn Supply>>,
    /// What an error reports as the size of the memory.
    total: usize,
    pieces: Mutex<Pieces>,
}

impl Arena {
    pub(super) fn new(supply: Arc<dyn Supply>) -> Arc<Self> {
        let total = supply.total();
        Arc::new(Self { supply: Some(supply), total, pieces: Mutex::default() })
    }

    /// The `bytes` addresses from `start` on, and no others.
    pub(super) fn over(start: u64, bytes: usize) -> Arc<Self> {
        let mut pieces = Pieces { tight: true, ..Pieces::default() };
        pieces.insert(start, bytes);
        Arc::new(Self { supply: None, total: bytes, pieces: Mutex::new(pieces) })
    }

    /// How many bytes from the start of a range have ever been handed out.
    pub(super) fn extent(&self, start: u64) -> usize {
        self.pieces().end.saturating_sub(start) as usize
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address and length of new memory with room for `bytes`; none where there is no more.
    fn segment(&self, bytes: usize) -> Result<Option<(u64, usize)>> {
        let Some(supply) = &self.supply else { return Ok(None) };
        let length = bytes.next_multiple_of(SEGMENT);
        Ok(match supply.allocate(length)? {
            None if length > bytes => supply.allocate(bytes)?.map(|at| (at, bytes)),
            found => found.map(|at| (at, length)),
        })
    }

    /// A block of at least `wanted` bytes.
    pub(super) fn take(self: &Arc<Self>, wanted: usize) -> Result<Block> {
        let mut pieces = self.pieces();
        let used = pieces.memory.used;
        let refused = || Error::OutOfMemory { wanted, used, total: self.total };
        // Rounding a number that no memory could hold might overflow.
        if wanted > self.total.max(SEGMENT) {
            return Err(refused());
        }
        let bytes = wanted.max(1).next_multiple_of(ALIGN);
        let address = if let Some(address) = pieces.take(bytes) {
            address
        } else {
            let (address, length) = self.segment(bytes)?.ok_or_else(refused)?;
            pieces.segments.insert(address);
            pieces.memory.reserved += length;
            pieces.insert(address, length);
            pieces.take(bytes).expect("the new segment is large enough")
        };
        drop(pieces);
        Ok(Block {
            address,
            bytes,
            wanted,
            arena: Arc::clone(self),
            half: OnceLock::new(),
            rounded: OnceLock::new(),
        })
    }

    pub(super) fn holds(self: &Arc<Self>, block: &Block) -> bool {
        Arc::ptr_eq(self, &block.arena)
    }

    pub(super) fn memory(&self) -> Memory {
        self.pieces().memory
    }

    pub(super) fn reset_peak(&self) {
        let memory = &mut self.pieces().memory;
        memory.peak = memory.used;
    }
}

/// A piece of memory that returns to its arena when the last buffer over it is dropped.
pub(super) struct Block {
    pub(super) address: u64,
    bytes: usize,
    /// Bytes that were asked for.
    pub(super) wanted: usize,
    arena: Arc<Arena>,
    /// The same numbers in bf16, made when a product first asks for them, because weights are read in every step.
    pub(super) half: OnceLock<Buffer>,
    /// The same in 8-bit floats.
    pub(super) rounded: OnceLock<Rounded>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.pieces().give(self.address, self.bytes);
    }
}

#[cfg(test)]
mod tests;
