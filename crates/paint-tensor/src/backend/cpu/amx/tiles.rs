//! Products of tiles: four accumulators of 16 x 16, and operands that are loaded as rarely as eight registers allow.

#![expect(unsafe_code, reason = "tile instructions exist as inline assembly only")]

use std::arch::asm;
use std::arch::x86_64::_MM_HINT_ET0;

use super::super::prefetch;
use super::{LANES, Split};

// The bytes that the instructions below go on by.
const _: () = assert!(4 * Split::Three.step_len() == 6144 && 4 * Split::Three.ahead_len() == 768);
const _: () = assert!(4 * Split::Two.step_len() == 4096 && 4 * Split::Two.ahead_len() == 512);

/// Declares a function that multiplies `steps` steps of two panels, one of its `step` instructions after the other,
/// and fetches an eighth as much of a third panel into the cache.
macro_rules! products {
    ($(#[$meta:meta])* $name:ident, panel_bytes: $bytes:literal, ahead_bytes: $ahead:literal,
     step: [$($line:expr),* $(,)?]) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// The registers must be configured, `a` and `b` hold `steps` steps, and `out` 32 rows `stride` apart. `next`
        /// may be any address: a prefetch cannot fault.
        pub(super) unsafe fn $name(
            steps: usize,
            [a, b, next]: [*const f32; 3],
            out: *mut f32,
            stride: usize,
            add: bool,
        ) {
            fetch_tile(out, stride);
            // SAFETY: the caller answers for the pointers; the tile registers are clobbered by name.
            unsafe {
                asm!(
                    "test {add}, {add}",
                    "jnz 2f",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "jmp 3f",
                    "2:",
                    "tileloadd tmm0, [{c} + {stride}]",
                    "tileloadd tmm1, [{c} + {stride} + 64]",
                    "tileloadd tmm2, [{d} + {stride}]",
                    "tileloadd tmm3, [{d} + {stride} + 64]",
                    "3:",
                    "test {steps}, {steps}",
                    "jz 5f",
                    "4:",
                    $($line,)*
                    "prefetcht1 [{next}]",
                    "prefetcht1 [{next} + 64]",
                    "prefetcht1 [{next} + 128]",
                    "prefetcht1 [{next} + 192]",
                    "prefetcht1 [{next} + 256]",
                    "prefetcht1 [{next} + 320]",
                    "prefetcht1 [{next} + 384]",
                    "prefetcht1 [{next} + 448]",
                    concat!("add {next}, ", $ahead),
                    concat!("add {a}, ", $bytes),
                    concat!("add {b}, ", $bytes),
                    "dec {steps}",
                    "jnz 4b",
                    "5:",
                    "tilestored [{c} + {stride}], tmm0",
                    "tilestored [{c} + {stride} + 64], tmm1",
                    "tilestored [{d} + {stride}], tmm2",
                    "tilestored [{d} + {stride} + 64], tmm3",
                    a = inout(reg) a => _,
                    b = inout(reg) b => _,
                    next = inout(reg) next => _,
                    c = in(reg) out,
                    d = in(reg) out.wrapping_add(16 * stride),
                    stride = in(reg) 4 * stride,
                    row = in(reg) 64_usize,
                    steps = inout(reg) steps => _,
                    add = in(reg) usize::from(add),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// Both operands from memory, whose halves lie at these bytes of a step.
macro_rules! both {
    ([$a0:literal, $a1:literal], [$b0:literal, $b1:literal]) => {
        concat!(
            "tileloadd tmm4, [{a} + {row} + ",
            $a0,
            "]\n",
            "tileloadd tmm6, [{b} + {row} + ",
            $b0,
            "]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tileloadd tmm7, [{b} + {row} + ",
            $b1,
            "]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloadd tmm5, [{a} + {row} + ",
            $a1,
            "]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7",
        )
    };
}

/// Another left operand; the right one is still in its registers.
macro_rules! left {
    ([$a0:literal, $a1:literal]) => {
        concat!(
            "tileloadd tmm4, [{a} + {row} + ",
            $a0,
            "]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tileloadd tmm5, [{a} + {row} + ",
            $a1,
            "]\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7",
        )
    };
}

/// Another right operand; the left one is still in its registers.
macro_rules! right {
    ([$b0:literal, $b1:literal]) => {
        concat!(
            "tileloadd tmm6, [{b} + {row} + ",
            $b0,
            "]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tileloadd tmm7, [{b} + {row} + ",
            $b1,
            "]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm3, tmm5, tmm7",
        )
    };
}

products! {
    /// Three parts: fourteen loads for twenty-four products per step.
    six_products, panel_bytes: 6144, ahead_bytes: 768, step: [
        both!([4096, 5120], [0, 1024]), // l h
        left!([0, 1024]),               // h h
        right!([4096, 5120]),           // h l
        right!([2048, 3072]),           // h m
        left!([2048, 3072]),            // m m
        right!([0, 1024]),              // m h
        "prefetcht1 [{next} + 512]",
        "prefetcht1 [{next} + 576]",
        "prefetcht1 [{next} + 640]",
        "prefetcht1 [{next} + 704]",
    ]
}

products! {
    /// Two parts: eight loads for twelve products per step.
    three_products, panel_bytes: 4096, ahead_bytes: 512, step: [
        both!([2048, 3072], [0, 1024]), // m h
        left!([0, 1024]),               // h h
        right!([2048, 3072]),           // h m
    ]
}

/// Brings a tile of the output into the cache, to be written.
fn fetch_tile(out: *mut f32, stride: usize) {
    for row in 0..LANES {
        prefetch::row::<_MM_HINT_ET0>(out.wrapping_add(row * stride));
    }
}
