//! Bringing what will be needed into a cache. An address may be any: a prefetch cannot fault.

#![expect(unsafe_code, reason = "prefetches are vector intrinsics")]

use std::arch::x86_64::_mm_prefetch;

/// 64 bytes; `HINT` is one of `_mm_prefetch`'s.
#[inline(always)]
pub(super) fn line<const HINT: i32>(at: *const f32) {
    // SAFETY: a prefetch cannot fault.
    unsafe { _mm_prefetch::<HINT>(at.cast()) };
}

/// 128 bytes, a row of a panel.
#[inline(always)]
pub(super) fn row<const HINT: i32>(at: *const f32) {
    line::<HINT>(at);
    line::<HINT>(at.wrapping_add(16));
}
