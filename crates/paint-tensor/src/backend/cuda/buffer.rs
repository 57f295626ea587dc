//! What a tensor holds on the GPU: a range of a block, in `f32` or `bf16`.

use std::sync::Arc;

use super::arena::Block;
use super::kernel::variants;
use super::param::{Read, Write};
use super::record;

/// How an element is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    F32,
    Bf16,
}

impl Kind {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

variants! {
    Kind {
        F32 = "f32",
        Bf16 = "bf16",
    }
}

/// Elements on the GPU; cloning shares them.
#[derive(Clone)]
pub(crate) struct Buffer {
    pub(super) block: Arc<Block>,
    start: usize,
    len: usize,
    pub(super) kind: Kind,
}

impl Buffer {
    pub(super) fn new(block: Block, len: usize, kind: Kind) -> Self {
        Self { block: Arc::new(block), start: 0, len, kind }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A range of the elements, sharing them.
    pub(crate) fn part(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "{start} + {len} elements of {}", self.len);
        Self { start: self.start + start, len, ..self.clone() }
    }

    pub(super) fn address(&self) -> u64 {
        self.address_of(0)
    }

    /// The address, for someone who does not use it.
    pub(crate) fn place(&self) -> u64 {
        self.block.address + (self.start * self.kind.bytes()) as u64
    }

    /// The address of one element. Whoever asks is about to use it: what this thread records keeps the block.
    pub(super) fn address_of(&self, element: usize) -> u64 {
        record::keep(&self.block);
        self.place() + (element * self.kind.bytes()) as u64
    }

    /// The elements, for a kernel that reads them.
    pub(super) fn read(&self) -> Read {
        Read(self.address())
    }

    /// The elements, for a kernel that writes them.
    pub(super) fn write(&self) -> Write {
        Write(self.address())
    }

    /// The whole block, and where this buffer begins in it.
    pub(super) fn whole(&self) -> (Self, usize) {
        let len = self.block.wanted / self.kind.bytes();
        (Self { start: 0, len, ..self.clone() }, self.start)
    }

    /// True if nothing else refers to these elements: they may be changed in place.
    pub(super) fn is_alone(&self) -> bool {
        let has_copies = self.block.half.get().is_some() || self.block.rounded.get().is_some();
        Arc::strong_count(&self.block) == 1 && !has_copies
    }
}
