//! Products of tiles: four accumulators of 16 x 16, and operands that are loaded as rarely as eight registers allow.

#![expect(unsafe_code, reason = "tile instructions exist as inline assembly only")]

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};

use super::{LANES, Split};

// The bytes that the instructions below go on by.
const _: () = assert!(4 * Split::Three.step_len() == 6144 && 4 * Split::Three.ahead_len() == 768);
const _: () = assert!(4 * Split::Two.step_len() == 4096 && 4 * Split::Two.ahead_len() == 512);

/// Declares a function that multiplies `steps` steps of two panels, one of its `step` instructions after the other,
/// and fetches an eighth as much of a third panel into the cache.
macro_rules! products {
    ($(#[$meta:meta])* $name:ident, panel_bytes: $bytes:literal, ahead_bytes: $ahead:literal,
     step: [$($line:literal),* $(,)?]) => {
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

products! {
    /// Three parts: fourteen loads for twenty-four products per step.
    six_products, panel_bytes: 6144, ahead_bytes: 768, step: [
        // l h
        "tileloadd tmm4, [{a} + {row} + 4096]",
        "tileloadd tmm6, [{b} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tileloadd tmm7, [{b} + {row} + 1024]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{a} + {row} + 5120]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // h h
        "tileloadd tmm4, [{a} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{a} + {row} + 1024]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // h l
        "tileloadd tmm6, [{b} + {row} + 4096]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tileloadd tmm7, [{b} + {row} + 5120]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // h m
        "tileloadd tmm6, [{b} + {row} + 2048]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tileloadd tmm7, [{b} + {row} + 3072]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // m m
        "tileloadd tmm4, [{a} + {row} + 2048]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{a} + {row} + 3072]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // m h
        "tileloadd tmm6, [{b} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tileloadd tmm7, [{b} + {row} + 1024]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tdpbf16ps tmm3, tmm5, tmm7",
        "prefetcht1 [{next} + 512]",
        "prefetcht1 [{next} + 576]",
        "prefetcht1 [{next} + 640]",
        "prefetcht1 [{next} + 704]",
    ]
}

products! {
    /// Two parts: eight loads for twelve products per step.
    three_products, panel_bytes: 4096, ahead_bytes: 512, step: [
        // m h
        "tileloadd tmm4, [{a} + {row} + 2048]",
        "tileloadd tmm6, [{b} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tileloadd tmm7, [{b} + {row} + 1024]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{a} + {row} + 3072]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // h h
        "tileloadd tmm4, [{a} + {row}]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tileloadd tmm5, [{a} + {row} + 1024]",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tdpbf16ps tmm3, tmm5, tmm7",
        // h m
        "tileloadd tmm6, [{b} + {row} + 2048]",
        "tdpbf16ps tmm0, tmm4, tmm6",
        "tdpbf16ps tmm2, tmm5, tmm6",
        "tileloadd tmm7, [{b} + {row} + 3072]",
        "tdpbf16ps tmm1, tmm4, tmm7",
        "tdpbf16ps tmm3, tmm5, tmm7",
    ]
}

/// Brings a tile of the output into the cache, to be written.
fn fetch_tile(out: *mut f32, stride: usize) {
    for row in 0..LANES {
        let at = out.wrapping_add(row * stride).cast::<i8>();
        // SAFETY: a prefetch cannot fault.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(at);
            _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(64));
        }
    }
}
