//! Self-attention over sequences that fit into shared memory as a whole, by Hopper's warpgroup products: bf16 or tf32,
//! 64 channels per head. Faster there than walking over tiles, because keys and values are read once and gradients need
//! no second pass over the scores.

use super::super::compile::{HOPPER, Source};
use super::super::driver::Grid;
use super::super::kernel::{Kernel, kernels};
use super::super::param::{Read, Write};
use super::{Mode, Rows, Shape};
use crate::backend::Attention;

const TEXT: &str = concat!(
    include_str!("../kernels/heads.cuh"),
    include_str!("../kernels/wgmma.cuh"),
    include_str!("../kernels/tiles.cuh"),
    include_str!("../kernels/attention_whole.cu")
);

kernels! {
    /// `attention_whole.cu`.
    struct Whole {
        attention_whole_forward: Kernel<(Shape, Rows, Rows, Rows, Write, Write)>,
        attention_whole_backward: Kernel<(
            Shape,
            Rows,
            Rows,
            Rows,
            Rows,
            Read,
            Read,
            Write,
            i64,
            Write,
            Write,
            i64,
        )>,
    }
}

const HEAD: usize = 64;
/// The most tokens: what the gradients hold of them fills the shared memory of a multiprocessor.
const MOST_TOKENS: usize = 224;
/// Rows that a warpgroup owns.
const GROUP: usize = 64;
/// Bytes of a row of a tile.
const ROW_BYTES: usize = 128;
/// Tiles begin at multiples of this many bytes.
const ATOM: usize = 1024;

/// The number of tokens, rounded up to 16, if these kernels fit a problem.
pub(super) fn tokens(attention: &Attention, mode: Mode, capability: (i32, i32)) -> Option<usize> {
    let &Attention { q_len, kv_len, head_dim, .. } = attention;
    let fits = capability == HOPPER
        && mode != Mode::F32
        && head_dim == HEAD
        && q_len == kv_len
        && (1..=MOST_TOKENS).contains(&kv_len);
    fits.then(|| kv_len.next_multiple_of(16))
}

/// Groups of rows that each of the two warpgroups of the forward kernel works on, one after the other.
fn turns(tokens: usize) -> usize {
    tokens.div_ceil(2 * GROUP)
}

pub(super) fn source(tokens: usize, mode: Mode) -> Source {
    let sizes = [("HEAD", HEAD), ("TOKENS", tokens), ("TURNS", turns(tokens))];
    let defines = mode.defines().into_iter().chain(sizes).collect();
    Source { name: "attention_whole", text: TEXT, defines }
}

/// On a GPU of so many multiprocessors the turns of a head have a block each where it has room for all of them.
pub(super) fn forward_grid(attention: &Attention, tokens: usize, multiprocessors: usize) -> Grid {
    let apart = turns(tokens) * attention.heads * attention.batch <= multiprocessors;
    let blocks = if apart { turns(tokens) } else { 1 };
    // Keys and values, and the queries of all turns.
    let rows = 2 * tokens + 2 * GROUP * turns(tokens);
    Grid {
        blocks: [blocks, attention.heads, attention.batch],
        threads: [4 * GROUP as u32, 1],
        shared: (ATOM + rows * ROW_BYTES) as u32,
    }
}

pub(super) fn backward_grid(attention: &Attention, tokens: usize) -> Grid {
    let rows = tokens.next_multiple_of(32);
    let groups = rows.div_ceil(GROUP);
    // Queries, keys, values and the gradient of the result; the slopes of scores; two numbers for every query.
    let tiles = (4 + groups) * rows * ROW_BYTES;
    Grid {
        blocks: [1, attention.heads, attention.batch],
        threads: [(2 * GROUP * groups) as u32, 1],
        shared: (ATOM + tiles + 8 * rows) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::MOST_SHARED;
    use super::super::tests::self_attention;
    use super::*;

    #[test]
    fn every_length_up_to_the_most_fits_into_shared_memory() {
        for len in 1..=MOST_TOKENS {
            self_attention(len, HEAD, |attention| {
                let tokens = tokens(attention, Mode::Bf16, HOPPER).expect("the kernels fit");
                assert!(tokens >= len && tokens.is_multiple_of(16));
                let [forward, backward] =
                    [forward_grid(attention, tokens, 132), backward_grid(attention, tokens)];
                let turns_apart = turns(tokens);
                assert_eq!(forward.blocks[0], turns_apart, "one head on 132 multiprocessors");
                assert_eq!(forward_grid(attention, tokens, turns_apart - 1).blocks[0], 1);
                // Two blocks of the forward kernel share a multiprocessor.
                assert!(2 * forward.shared <= MOST_SHARED, "{len}: {}", forward.shared);
                assert!(backward.shared <= MOST_SHARED, "{len}: {}", backward.shared);
                // The two warpgroups reach every row in their turns, and the gradients have one for every 64 rows.
                assert!(2 * GROUP * turns(tokens) >= len);
                assert!(backward.threads[0] as usize / 2 >= len && backward.threads[0] <= 1024);
            });
        }
    }

    #[test]
    fn problems_that_do_not_fit_go_to_the_other_kernels() {
        for (len, head, mode, capability) in [
            (MOST_TOKENS + 1, HEAD, Mode::Bf16, HOPPER),
            (64, 32, Mode::Bf16, HOPPER),
            (64, HEAD, Mode::F32, HOPPER),
            (64, HEAD, Mode::Bf16, (8, 0)),
        ] {
            self_attention(len, head, |attention| {
                assert_eq!(tokens(attention, mode, capability), None);
            });
        }
    }
}
