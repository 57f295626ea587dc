//! The kernel of [`super::int8`]: a 14 x 32 tile of 32-bit sums in 28 registers, four depths at a time.

#![expect(
    unsafe_code,
    reason = "vector intrinsics need raw pointers; lengths are checked at the safe entry points"
)]

use std::arch::x86_64::{
    _CMP_UNORD_Q, _mm_mask_storeu_epi8, _mm512_cmp_ps_mask, _mm512_cvtepi32_epi8,
    _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
    _mm512_loadu_si512, _mm512_mask_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_max_ps, _mm512_reduce_min_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_si512, _mm512_sub_ps,
};

use std::hint::black_box;

use super::avx512::mask;
use super::gemm::{NR, Operand};

/// Rows of a tile.
pub(super) const MR: usize = 14;
/// Depths that one instruction sums.
pub(super) const GROUP: usize = 4;

/// True if this CPU runs the kernel.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// The bytes of some floats.
pub(super) fn bytes_mut(floats: &mut [f32]) -> &mut [u8] {
    // SAFETY: four bytes each, of which every content is a number.
    unsafe { std::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), 4 * floats.len()) }
}

/// Rows of the left operand in 8 bits.
pub(super) struct Rounded<'a> {
    /// Each row in whole groups of depths, zero beyond the last.
    bytes: &'a [u8],
    lane: usize,
    /// `s_i` and `l_i`.
    units: Vec<[f32; 2]>,
}

impl<'a> Rounded<'a> {
    /// `m` rows of `k` values, which lie side by side in `a`, rounded into `out`.
    pub(super) fn new(a: &Operand, [m, k]: [usize; 2], out: &'a mut [f32]) -> Self {
        let lane = k.next_multiple_of(GROUP);
        let bytes = &mut bytes_mut(out)[..m * lane];
        assert!(available());
        let rows = bytes.chunks_exact_mut(lane).enumerate();
        // SAFETY: the instructions are there.
        let units = rows.map(|(row, out)| unsafe { round(&a.data[row * a.row..][..k], out) });
        let units = units.collect();
        Self { bytes, lane, units }
    }
}

/// Rounds a row and gives its `s` and `l`, which are no numbers if a value is none.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn round(row: &[f32], out: &mut [u8]) -> [f32; 2] {
    assert!(!row.is_empty() && out.len() >= row.len());
    let first = _mm512_set1_ps(row[0]);
    let (mut low, mut high, mut unordered) = (first, first, 0);
    for at in (0..row.len()).step_by(16) {
        // SAFETY: the mask keeps the access inside the row.
        let x = unsafe { _mm512_mask_loadu_ps(first, mask(row.len() - at), row.as_ptr().add(at)) };
        low = _mm512_min_ps(x, low);
        high = _mm512_max_ps(x, high);
        unordered |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    }
    let (low, high) = (_mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high));
    let range = high - low;
    if unordered != 0 || !range.is_finite() {
        out.fill(0);
        return [f32::NAN; 2];
    }
    // A range whose unit has no reciprocal vanishes.
    let per_unit = 255.0 / range;
    let per_unit = _mm512_set1_ps(if per_unit.is_finite() { per_unit } else { 0.0 });
    let from = _mm512_set1_ps(low);
    for at in (0..row.len()).step_by(16) {
        let mask = mask(row.len() - at);
        // SAFETY: the mask keeps both accesses inside their rows.
        unsafe {
            let x = _mm512_mask_loadu_ps(from, mask, row.as_ptr().add(at));
            let whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_sub_ps(x, from), per_unit));
            _mm_mask_storeu_epi8(
                out.as_mut_ptr().add(at).cast(),
                mask,
                _mm512_cvtepi32_epi8(whole),
            );
        }
    }
    out[row.len()..].fill(0);
    [range / 255.0, low]
}

/// Multiplies the rows from `top` to `bottom` by a packed panel into `cols` columns at the start of `out`, whose rows
/// are `stride` apart.
pub(super) fn multiply(
    rows: &Rounded,
    [top, bottom]: [usize; 2],
    panel: &[f32],
    out: &mut [f32],
    [stride, cols]: [usize; 2],
) {
    let count = bottom - top;
    assert!((1..=MR).contains(&count) && (1..=NR).contains(&cols) && available());
    assert!(out.len() >= (count - 1) * stride + cols);
    assert!(bottom * rows.lane <= rows.bytes.len() && bottom <= rows.units.len());
    assert!(panel.len() == rows.lane / GROUP * NR + 2 * NR);
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match count {
                // SAFETY: the instructions and all lengths were checked above; stores are masked to `cols`.
                $($rows => unsafe { kernel::<$rows>(rows, top, panel, out, [stride, cols]) },)*
                _ => unreachable!("rows were checked"),
            }
        };
    }
    by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
}

#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn kernel<const R: usize>(
    rows: &Rounded,
    top: usize,
    panel: &[f32],
    out: &mut [f32],
    [stride, cols]: [usize; 2],
) {
    let groups = rows.lane / GROUP;
    let mut at = [rows.bytes.as_ptr(); R];
    for (row, at) in at.iter_mut().enumerate() {
        *at = at.wrapping_add((top + row) * rows.lane);
    }
    // Else the compiler computes each address from the one before.
    let at = black_box(at);
    let mut sums = [[_mm512_setzero_si512(); 2]; R];
    let mut weights = panel.as_ptr();
    for group in 0..groups {
        // SAFETY: `multiply` checked that all rows and the panel hold so many groups.
        unsafe {
            let w = [0, 16].map(|half| _mm512_loadu_si512(weights.add(half).cast()));
            // Without a loop the compiler keeps the sums in registers.
            macro_rules! add {
                ($($row:literal)*) => {
                    $(if $row < R {
                        let x = at[$row].add(group * GROUP).cast::<i32>().read_unaligned();
                        let x = _mm512_set1_epi32(x);
                        sums[$row][0] = _mm512_dpbusd_epi32(sums[$row][0], x, w[0]);
                        sums[$row][1] = _mm512_dpbusd_epi32(sums[$row][1], x, w[1]);
                    })*
                };
            }
            add!(0 1 2 3 4 5 6 7 8 9 10 11 12 13);
            weights = weights.add(NR);
        }
    }
    let masks = [mask(cols), mask(cols.saturating_sub(16))];
    let units = rows.units[top..].as_ptr();
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: `multiply` checked that each row has its unit.
        let [unit, low] = unsafe { *units.add(row) }.map(|value| _mm512_set1_ps(value));
        for (half, (&sum, &mask)) in sums.iter().zip(&masks).enumerate() {
            // SAFETY: two registers of each are left of the panel, and the mask keeps the store inside the row.
            unsafe {
                let scale = _mm512_maskz_loadu_ps(u16::MAX, weights.add(16 * half));
                let of_low = _mm512_maskz_loadu_ps(u16::MAX, weights.add(NR + 16 * half));
                let scaled = _mm512_mul_ps(_mm512_mul_ps(unit, scale), _mm512_cvtepi32_ps(sum));
                let value = _mm512_fmadd_ps(low, of_low, scaled);
                let at = out.as_mut_ptr().wrapping_add(row * stride + 16 * half);
                _mm512_mask_storeu_ps(at, mask, value);
            }
        }
    }
}
