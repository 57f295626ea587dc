//! The 8x8 cosine transform and its inverse in the integers of libjpeg's accurate method.
//!
//! Loeffler, Ligtenberg and Moschytz's eleven-multiplication factorisation with 13-bit constants; two extra bits are
//! kept between the passes. The same roundings at the same places give the same bytes as libjpeg. Eight blocks are
//! transformed at once: block `i` is lane `i` of every operation, so that neither pass has to exchange lanes.
//! Coefficients no image has, as damaged files hold, wrap around.

/// Blocks transformed at once.
pub(crate) const LANES: usize = 8;
/// Eight blocks: the same value of each lie together, and the 64 values row by row.
pub(crate) type Blocks = [[i32; LANES]; 64];
/// A row or a column of one block.
type Line = [i32; 8];

const CONST_BITS: u32 = 13;
const PASS1_BITS: u32 = 2;

const F_0_298: i32 = 2446;
const F_0_390: i32 = 3196;
const F_0_541: i32 = 4433;
const F_0_765: i32 = 6270;
const F_0_899: i32 = 7373;
const F_1_175: i32 = 9633;
const F_1_501: i32 = 12299;
const F_1_847: i32 = 15137;
const F_1_961: i32 = 16069;
const F_2_053: i32 = 16819;
const F_2_562: i32 = 20995;
const F_3_072: i32 = 25172;

/// Division by `2^bits`, rounded.
#[inline(always)]
fn descale(a: i32, bits: u32) -> i32 {
    a.wrapping_add(1 << (bits - 1)) >> bits
}

/// Applies a pass to every row.
#[inline(always)]
fn rows(blocks: &mut Blocks, pass: impl Fn(Line) -> Line) {
    for row in blocks.as_chunks_mut::<8>().0 {
        let [a, b, c, d, e, f, g, h] = row;
        lanes([a, b, c, d, e, f, g, h], &pass);
    }
}

/// Applies a pass to every column.
#[inline(always)]
fn columns(blocks: &mut Blocks, pass: impl Fn(Line) -> Line) {
    for x in 0..8 {
        let [a, b, c, d, e, f, g, h] = blocks.as_chunks_mut::<8>().0 else {
            unreachable!("64 values are eight rows of eight")
        };
        lanes(
            [
                &mut a[x], &mut b[x], &mut c[x], &mut d[x], &mut e[x], &mut f[x], &mut g[x],
                &mut h[x],
            ],
            &pass,
        );
    }
}

/// Applies a pass to one line of every block: the loop that is compiled to vectors.
#[inline(always)]
fn lanes(line: [&mut [i32; LANES]; 8], pass: impl Fn(Line) -> Line) {
    let [a, b, c, d, e, f, g, h] = line;
    for i in 0..LANES {
        [a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]] =
            pass([a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]]);
    }
}

/// The four odd outputs (forward) or the odd half (inverse) of four inputs; the flow graph is its own transpose.
#[inline(always)]
fn odd([a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let (ac, bd) = (a.wrapping_add(c), b.wrapping_add(d));
    let z5 = ac.wrapping_add(bd).wrapping_mul(F_1_175);
    let z1 = a.wrapping_add(d).wrapping_mul(-F_0_899);
    let z2 = b.wrapping_add(c).wrapping_mul(-F_2_562);
    let z3 = ac.wrapping_mul(-F_1_961).wrapping_add(z5);
    let z4 = bd.wrapping_mul(-F_0_390).wrapping_add(z5);
    [
        a.wrapping_mul(F_0_298).wrapping_add(z1).wrapping_add(z3),
        b.wrapping_mul(F_2_053).wrapping_add(z2).wrapping_add(z4),
        c.wrapping_mul(F_3_072).wrapping_add(z2).wrapping_add(z3),
        d.wrapping_mul(F_1_501).wrapping_add(z1).wrapping_add(z4),
    ]
}

/// One forward pass: the first, which keeps `PASS1_BITS` more, or the second, which gives them back.
#[inline(always)]
fn forward_pass<const FIRST: bool>(d: Line) -> Line {
    let bits = if FIRST { CONST_BITS - PASS1_BITS } else { CONST_BITS + PASS1_BITS };
    // The two outputs that have no product.
    let scale = |a: i32| if FIRST { a << PASS1_BITS } else { descale(a, PASS1_BITS) };
    let (t0, t7) = (d[0] + d[7], d[0] - d[7]);
    let (t1, t6) = (d[1] + d[6], d[1] - d[6]);
    let (t2, t5) = (d[2] + d[5], d[2] - d[5]);
    let (t3, t4) = (d[3] + d[4], d[3] - d[4]);
    let (t10, t13) = (t0 + t3, t0 - t3);
    let (t11, t12) = (t1 + t2, t1 - t2);
    let z1 = (t12 + t13) * F_0_541;
    let [o7, o5, o3, o1] = odd([t4, t5, t6, t7]);
    [
        scale(t10 + t11),
        descale(o1, bits),
        descale(z1 + t13 * F_0_765, bits),
        descale(o3, bits),
        scale(t10 - t11),
        descale(o5, bits),
        descale(z1 - t12 * F_1_847, bits),
        descale(o7, bits),
    ]
}

/// Samples centred on zero become eight times their orthonormal coefficients.
#[inline(always)]
pub(crate) fn forward(blocks: &mut Blocks) {
    rows(blocks, forward_pass::<true>);
    columns(blocks, forward_pass::<false>);
}

#[inline(always)]
fn inverse_pass<const BITS: u32>(c: Line) -> Line {
    let z1 = c[2].wrapping_add(c[6]).wrapping_mul(F_0_541);
    let t2 = z1.wrapping_sub(c[6].wrapping_mul(F_1_847));
    let t3 = z1.wrapping_add(c[2].wrapping_mul(F_0_765));
    let (t0, t1) = (c[0].wrapping_add(c[4]) << CONST_BITS, c[0].wrapping_sub(c[4]) << CONST_BITS);
    let (t10, t13) = (t0.wrapping_add(t3), t0.wrapping_sub(t3));
    let (t11, t12) = (t1.wrapping_add(t2), t1.wrapping_sub(t2));
    let [o0, o1, o2, o3] = odd([c[7], c[5], c[3], c[1]]);
    [
        descale(t10.wrapping_add(o3), BITS),
        descale(t11.wrapping_add(o2), BITS),
        descale(t12.wrapping_add(o1), BITS),
        descale(t13.wrapping_add(o0), BITS),
        descale(t13.wrapping_sub(o0), BITS),
        descale(t12.wrapping_sub(o1), BITS),
        descale(t11.wrapping_sub(o2), BITS),
        descale(t10.wrapping_sub(o3), BITS),
    ]
}

/// Orthonormal coefficients become samples centred on zero.
#[inline(always)]
pub(crate) fn inverse(blocks: &mut Blocks) {
    columns(blocks, inverse_pass::<{ CONST_BITS - PASS1_BITS }>);
    rows(blocks, inverse_pass::<{ CONST_BITS + PASS1_BITS + 3 }>);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight different blocks of samples.
    fn samples() -> Blocks {
        std::array::from_fn(|k| {
            let (x, y) = (k % 8, k / 8);
            std::array::from_fn(|lane| ((x * 31 + y * y * 17 + lane * x * y) % 256) as i32 - 128)
        })
    }

    #[test]
    fn forward_is_eight_times_the_cosine_transform() {
        let (samples, mut found) = (samples(), samples());
        forward(&mut found);
        let cosine = |k: usize, n: usize| {
            (std::f64::consts::PI * (2 * n + 1) as f64 * k as f64 / 16.0).cos()
        };
        let norm = |k: usize| if k == 0 { 0.125_f64.sqrt() } else { 0.5 };
        for (v, u, lane) in (0..512).map(|i| (i / 64, i / 8 % 8, i % 8)) {
            let mut expected = 0.0;
            for (k, sample) in samples.iter().enumerate() {
                let weight = norm(u) * norm(v) * cosine(u, k % 8) * cosine(v, k / 8);
                expected += weight * f64::from(sample[lane]);
            }
            let found = f64::from(found[v * 8 + u][lane]);
            assert!(
                (found - 8.0 * expected).abs() < 2.0,
                "({v}, {u}): {found}, {}",
                8.0 * expected
            );
        }
    }

    #[test]
    fn the_inverse_returns_the_samples() {
        let mut blocks = samples();
        forward(&mut blocks);
        for coefficient in blocks.as_flattened_mut() {
            *coefficient = (f64::from(*coefficient) / 8.0).round() as i32;
        }
        inverse(&mut blocks);
        for (found, expected) in blocks.as_flattened().iter().zip(samples().as_flattened()) {
            // Whole coefficients: an error of at most a half each, mostly cancelling.
            assert!((found - expected).abs() <= 2);
        }
    }
}
