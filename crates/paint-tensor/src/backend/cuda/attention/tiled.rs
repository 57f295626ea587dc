//! Attention over sequences of any length, which a block walks over in tiles; compiled for a head dimension.

use super::super::buffer::Buffer;
use super::super::compile::Source;
use super::super::driver::{Arg, Gpu, Grid};
use super::super::{Cuda, on_gpu};
use super::{Inputs, Kind, Targets, rows, shape};
use crate::Result;
use crate::backend::{Attention, AttentionGrad, Precision};

const TEXT: &str = concat!(
    include_str!("../kernels/heads.cuh"),
    include_str!("../kernels/fragments.cuh"),
    include_str!("../kernels/attention.cu")
);
const NAMES: [&str; 4] = [
    "attention_forward",
    "attention_delta",
    "attention_backward_queries",
    "attention_backward_keys",
];
/// Rows of a tile that a block walks over, as in the kernels.
const TILE: usize = 64;
/// The most warps of a block: as many as leave registers for other blocks beside it.
const MOST_WARPS: usize = 4;

/// The arithmetic, as the kernels number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Mode {
    Bf16,
    /// f32 storage, tf32 products.
    Tf32,
    /// f32 storage, three tf32 products for each f32 one.
    F32,
}

impl Mode {
    pub(super) fn of(kind: Kind, precision: Precision) -> Self {
        match (kind, precision) {
            (Kind::Bf16, _) => Self::Bf16,
            (Kind::F32, Precision::F32) => Self::F32,
            (Kind::F32, _) => Self::Tf32,
        }
    }
}

/// One of the kernels over rows.
struct Kernel {
    name: &'static str,
    /// Tiles of its own rows.
    own: usize,
    /// Whether it keeps two numbers of every query.
    statistics: bool,
}

const FORWARD: Kernel = Kernel { name: NAMES[0], own: 1, statistics: false };
const QUERIES: Kernel = Kernel { name: NAMES[2], own: 2, statistics: false };
const KEYS: Kernel = Kernel { name: NAMES[3], own: 2, statistics: true };

pub(super) fn source(head: usize, mode: Mode) -> (Source, Vec<String>) {
    let width = head.next_multiple_of(16);
    let defines = vec![("MODE", mode as usize), ("HEAD", head), ("WIDTH", width)];
    (Source { name: "attention", text: TEXT, defines }, NAMES.map(str::to_owned).to_vec())
}

pub(super) fn forward(attention: &Attention, mode: Mode, gpu: &Gpu) -> (&'static str, Grid) {
    (FORWARD.name, grid(attention, mode, attention.q_len, &FORWARD, gpu))
}

/// Rows that a warp owns: two bands of 16 if their accumulators fit into registers.
fn warp_rows(head: usize, mode: Mode) -> usize {
    if mode != Mode::F32 && head <= 64 { 32 } else { 16 }
}

/// How a kernel is spread over `len` rows.
fn grid(attention: &Attention, mode: Mode, len: usize, kernel: &Kernel, gpu: &Gpu) -> Grid {
    let rows = warp_rows(attention.head_dim, mode);
    let statistics = if kernel.statistics { 8 * attention.q_len.next_multiple_of(TILE) } else { 0 };
    let bytes = |warps| tiles(attention.head_dim, mode, rows * warps, kernel.own) + statistics;
    let needed = len.div_ceil(rows).max(1);
    let most = most_warps(bytes, gpu.properties.shared_memory as usize);
    let blocks = needed.div_ceil(most);
    let warps = needed.div_ceil(blocks);
    Grid {
        blocks: [blocks, attention.heads, attention.batch],
        threads: [32 * warps as u32, 1],
        shared: bytes(warps) as u32,
    }
}

/// The most warps of a block whose shared memory, so many bytes for a number of warps, is at most `shared`.
fn most_warps(bytes: impl Fn(usize) -> usize, shared: usize) -> usize {
    (1..=MOST_WARPS).rev().find(|&warps| bytes(warps) <= shared).unwrap_or(1)
}

/// Bytes of the tiles of a block: the pairs it walks over, two in bf16 and one in f32, and `own` tiles of its rows.
fn tiles(head: usize, mode: Mode, rows: usize, own: usize) -> usize {
    let width = head.next_multiple_of(16);
    let (pairs, row) = match mode {
        Mode::Bf16 => (2, (width + 8) * 2),
        Mode::Tf32 | Mode::F32 => (1, (width + 4) * 4),
    };
    (pairs * 2 * TILE + own * rows) * row
}

impl Cuda {
    pub(super) fn tiled_backward(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
        (inputs, mode): (&Inputs, Mode),
        grad: &Buffer,
        to: &Targets,
    ) -> Result<()> {
        let count = attention.batch * attention.heads * attention.q_len;
        let delta = self.take_f32(count)?;
        let delta_grid = Grid::new([count.div_ceil(32), 1, 1], [256, 1]);
        let args = [
            shape(attention),
            Arg::Address(on_gpu(saved.out).address()),
            Arg::Address(grad.address()),
            Arg::Address(delta.address()),
            Arg::I64(count as i64),
        ];
        self.gpu.launch(&inputs.kernels, NAMES[1], delta_grid, &args)?;
        let statistics = [on_gpu(saved.lse), &delta].map(|x| Arg::Address(x.address()));
        let grad = [rows(grad, 0, attention.width())];
        let read = [&inputs.args(attention)[..], &grad, &statistics].concat();
        let over_queries = grid(attention, mode, attention.q_len, &QUERIES, &self.gpu);
        let args = [&read[..], &to.dq].concat();
        self.gpu.launch(&inputs.kernels, QUERIES.name, over_queries, &args)?;
        let over_keys = grid(attention, mode, attention.kv_len, &KEYS, &self.gpu);
        let args = [&read[..], &to.dkv].concat();
        self.gpu.launch(&inputs.kernels, KEYS.name, over_keys, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_no_more_shared_memory_than_there_is() {
        let rows = warp_rows(64, Mode::Tf32);
        let bytes = |warps: usize| tiles(64, Mode::Tf32, rows * warps, KEYS.own) + 8 * 256;
        for (shared, warps) in [(227 << 10, 4), (99 << 10, 3), (48 << 10, 1)] {
            assert_eq!(most_warps(bytes, shared), warps);
        }
        assert!(bytes(3) <= 99 << 10 && bytes(4) > 99 << 10);
    }
}
