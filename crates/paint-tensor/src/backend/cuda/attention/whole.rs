//! Self-attention over sequences that fit into shared memory as a whole, by Hopper's warpgroup products: bf16 or tf32, 64
//! channels a head. Faster there than walking over tiles, because keys and values are read once and gradients need no second
//! pass over the scores.

use super::super::compile::{HOPPER, Source};
use super::super::driver::Grid;
use super::Variant;
use super::tiled::Mode;
use crate::backend::Attention;

const TEXT: &str = concat!(
    include_str!("../kernels/heads.cuh"),
    include_str!("../kernels/wgmma.cuh"),
    include_str!("../kernels/tiles.cuh"),
    include_str!("../kernels/attention_whole.cu")
);
const FORWARD: &str = "attention_whole_forward";
const BACKWARD: &str = "attention_whole_backward";

const HEAD: usize = 64;
/// The most tokens: what the gradients hold of them fills the shared memory of a multiprocessor.
const MOST_TOKENS: usize = 224;
/// Rows that a warpgroup owns.
const GROUP: usize = 64;
/// Bytes of a row of a tile.
const ROW_BYTES: usize = 128;
/// Tiles begin at multiples of this many bytes.
const ATOM: usize = 1024;

pub(super) fn variant(
    attention: &Attention,
    mode: Mode,
    capability: (i32, i32),
) -> Option<Variant> {
    let &Attention { q_len, kv_len, head_dim, .. } = attention;
    let fits = capability == HOPPER
        && mode != Mode::F32
        && head_dim == HEAD
        && q_len == kv_len
        && (1..=MOST_TOKENS).contains(&kv_len);
    fits.then(|| Variant::Whole { tokens: kv_len.next_multiple_of(16), mode })
}

/// Groups that each of the two warpgroups of the forward kernel works on, one after the other.
fn turns(tokens: usize) -> usize {
    tokens.div_ceil(2 * GROUP)
}

pub(super) fn source(tokens: usize, mode: Mode) -> (Source, Vec<String>) {
    let turns = turns(tokens);
    let defines =
        vec![("MODE", mode as usize), ("HEAD", HEAD), ("TOKENS", tokens), ("TURNS", turns)];
    let names = [FORWARD, BACKWARD].map(str::to_owned).to_vec();
    (Source { name: "attention_whole", text: TEXT, defines }, names)
}

pub(super) fn forward(attention: &Attention, tokens: usize) -> (&'static str, Grid) {
    // Keys and values, and the queries of all turns.
    let rows = 2 * tokens + 2 * GROUP * turns(tokens);
    let grid = Grid {
        blocks: [1, attention.heads, attention.batch],
        threads: [4 * GROUP as u32, 1],
        shared: (ATOM + rows * ROW_BYTES) as u32,
    };
    (FORWARD, grid)
}

pub(super) fn backward(attention: &Attention, tokens: usize) -> (&'static str, Grid) {
    let rows = tokens.next_multiple_of(32);
    let groups = rows.div_ceil(GROUP);
    // Queries, keys, values and the gradient of the result; what is known of scores; two numbers of every query.
    let tiles = (4 + groups) * rows * ROW_BYTES;
    let grid = Grid {
        blocks: [1, attention.heads, attention.batch],
        threads: [(2 * GROUP * groups) as u32, 1],
        shared: (ATOM + tiles + 8 * rows) as u32,
    };
    (BACKWARD, grid)
}
