//! Attention over sequences of any length, which a block walks over in tiles; compiled for a head dimension.

use super::super::buffer::Buffer;
use super::super::compile::Source;
use super::super::driver::Grid;
use super::super::kernel::{Kernel, kernels};
use super::super::param::{Read, Write};
use super::super::{Cuda, on_gpu};
use super::{Inputs, Mode, Rows, Shape, Targets, shape};
use crate::Result;
use crate::backend::{Attention, AttentionGrad};

const TEXT: &str = concat!(
    include_str!("../kernels/heads.cuh"),
    include_str!("../kernels/fragments.cuh"),
    include_str!("../kernels/attention.cu")
);

kernels! {
    /// `attention.cu`.
    #[expect(clippy::struct_field_names, reason = "a field is named as its kernel")]
    struct Tiled {
        attention_forward: Kernel<(Shape, Rows, Rows, Rows, Write, Write)>,
        attention_delta: Kernel<(Shape, Read, Read, Write, i64)>,
        attention_backward_queries:
            Kernel<(Shape, Rows, Rows, Rows, Rows, Read, Read, Write, i64)>,
        attention_backward_keys:
            Kernel<(Shape, Rows, Rows, Rows, Rows, Read, Read, Write, Write, i64)>,
    }
}

/// Rows of a tile that a block walks over.
const TILE: usize = 64;
/// The most warps of a block: as many as leave registers for other blocks beside it.
const MOST_WARPS: usize = 4;

/// What a kernel holds in shared memory besides the tiles that it walks over.
#[derive(Clone, Copy)]
struct Own {
    /// Tiles of its own rows.
    tiles: usize,
    /// Two numbers for every query.
    statistics: bool,
}

const FORWARD: Own = Own { tiles: 1, statistics: false };
const QUERIES: Own = Own { tiles: 2, statistics: false };
const KEYS: Own = Own { tiles: 2, statistics: true };

pub(super) fn source(head: usize, mode: Mode) -> Source {
    let sizes = [
        ("HEAD", head),
        ("WIDTH", head.next_multiple_of(16)),
        ("TILE", TILE),
        ("MOST_THREADS", 32 * MOST_WARPS),
    ];
    let defines = mode.defines().into_iter().chain(sizes).collect();
    Source { name: "attention", text: TEXT, defines }
}

/// The grid of the forward kernel on a GPU with so many bytes of shared memory per block.
pub(super) fn forward_grid(attention: &Attention, mode: Mode, shared: usize) -> Grid {
    grid(attention, mode, attention.q_len, FORWARD, shared)
}

/// Rows that a warp owns: two bands of 16 if their accumulators fit into registers.
fn warp_rows(head: usize, mode: Mode) -> usize {
    if mode != Mode::F32 && head <= 64 { 32 } else { 16 }
}

/// How a kernel is spread over `len` rows.
fn grid(attention: &Attention, mode: Mode, len: usize, own: Own, shared: usize) -> Grid {
    let rows = warp_rows(attention.head_dim, mode);
    let statistics = if own.statistics { 8 * attention.q_len.next_multiple_of(TILE) } else { 0 };
    let bytes = |warps| tile_bytes(attention.head_dim, mode, rows * warps, own.tiles) + statistics;
    let needed = len.div_ceil(rows).max(1);
    let most = most_warps(bytes, shared);
    let blocks = needed.div_ceil(most);
    // Few rows, such as the pooled tokens, would leave the loading of tiles to one warp.
    let warps = if needed == 1 { most } else { needed.div_ceil(blocks) };
    Grid {
        blocks: [blocks, attention.heads, attention.batch],
        threads: [32 * warps as u32, 1],
        shared: bytes(warps) as u32,
    }
}

/// The most warps of a block whose shared memory, `bytes` of a number of warps, is at most `shared`.
fn most_warps(bytes: impl Fn(usize) -> usize, shared: usize) -> usize {
    (1..=MOST_WARPS).rev().find(|&warps| bytes(warps) <= shared).unwrap_or(1)
}

/// Bytes of the tiles of a block: the pairs it walks over, two in bf16 and one in f32, and `own` tiles of its rows.
fn tile_bytes(head: usize, mode: Mode, rows: usize, own: usize) -> usize {
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
        (inputs, kernels): (&Inputs, &Tiled),
        grad: &Buffer,
        to: Targets,
    ) -> Result<()> {
        let (shape, mode) = (shape(attention), inputs.mode);
        let shared = self.gpu.properties.shared_memory as usize;
        let count = attention.batch * attention.heads * attention.q_len;
        let delta = self.take_f32(count)?;
        let grid_of_delta = Grid::new([count.div_ceil(32), 1, 1], [256, 1]);
        let params = (shape, on_gpu(saved.out).read(), grad.read(), delta.write(), count as i64);
        self.gpu.launch(&kernels.attention_delta, grid_of_delta, params)?;
        let [q, k, v] = inputs.rows(attention);
        let grad = Rows::new(grad, 0, attention.width());
        let (lse, delta) = (on_gpu(saved.lse).read(), delta.read());
        let Targets { dq: (dq, dq_row), dk, dv, dkv_row } = to;
        let over_queries = grid(attention, mode, attention.q_len, QUERIES, shared);
        let params = (shape, q, k, v, grad, lse, delta, dq, dq_row);
        self.gpu.launch(&kernels.attention_backward_queries, over_queries, params)?;
        let over_keys = grid(attention, mode, attention.kv_len, KEYS, shared);
        let params = (shape, q, k, v, grad, lse, delta, dk, dv, dkv_row);
        self.gpu.launch(&kernels.attention_backward_keys, over_keys, params)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::self_attention;
    use super::*;

    #[test]
    fn a_block_takes_no_more_shared_memory_than_there_is() {
        let rows = warp_rows(64, Mode::Tf32);
        let bytes = |warps: usize| tile_bytes(64, Mode::Tf32, rows * warps, KEYS.tiles) + 8 * 256;
        for (shared, warps) in [(227 << 10, 4), (99 << 10, 3), (48 << 10, 1)] {
            assert_eq!(most_warps(bytes, shared), warps);
        }
        assert!(bytes(3) <= 99 << 10 && bytes(4) > 99 << 10);
    }

    #[test]
    fn the_warps_of_a_grid_own_every_row_and_no_block_is_idle() {
        for (head, mode) in [(64, Mode::Bf16), (64, Mode::Tf32), (128, Mode::F32), (12, Mode::F32)]
        {
            for len in [1, 15, 16, 17, 63, 64, 65, 199, 1000] {
                self_attention(len, head, |attention| {
                    for (own, shared) in [(FORWARD, 227 << 10), (QUERIES, 99 << 10)] {
                        let Grid { blocks, threads, shared: bytes } =
                            grid(attention, mode, len, own, shared);
                        let per_block = threads[0] as usize / 32 * warp_rows(head, mode);
                        assert!(blocks[0] * per_block >= len, "{mode:?} {head} {len}");
                        assert!((blocks[0] - 1) * per_block < len, "{mode:?} {head} {len}");
                        assert!(bytes as usize <= shared && threads[0] <= 128);
                    }
                });
            }
        }
    }
}
