//! Host memory of the pool: small pieces from the heap, large ones mapped by themselves.
//!
//! An allocator puts pieces of a few MiB side by side and neither joins nor returns what is free between others. With
//! them on the heap, 15 steps of ViT-B/16 made a process grow from 1.4 to 2.1 GiB.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Floats, 1 MiB, from which on a piece is mapped.
const LARGE: usize = 1 << 18;

/// Floats that are zero at first.
pub(super) enum HostMemory {
    Heap(Vec<f32>),
    Mapped(MmapMut),
}

impl HostMemory {
    pub(super) fn zeros(len: usize) -> Self {
        let mapped = (len >= LARGE).then(|| MmapMut::map_anon(len * size_of::<f32>()));
        // A system that does not map memory is asked in the usual way, which ends the process if there is none.
        mapped.and_then(Result::ok).map_or_else(|| Self::Heap(vec![0.0; len]), Self::Mapped)
    }
}

impl Default for HostMemory {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Deref for HostMemory {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Self::Heap(memory) => memory,
            Self::Mapped(memory) => bytemuck::cast_slice(memory),
        }
    }
}

impl DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Heap(memory) => memory,
            Self::Mapped(memory) => bytemuck::cast_slice_mut(memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_writable_on_both_sides_of_the_limit() {
        for (len, mapped) in [(LARGE - 1, false), (LARGE, true)] {
            let mut memory = HostMemory::zeros(len);
            assert_eq!(matches!(memory, HostMemory::Mapped(_)), mapped);
            assert!(memory.len() == len && memory.iter().all(|&x| x == 0.0));
            memory[len - 1] = 1.5;
            assert_eq!(memory[len - 1], 1.5);
        }
    }
}
