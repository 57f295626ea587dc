//! The 8x8 cosine transform and its inverse in the integers of libjpeg's accurate method.
//!
//! Loeffler, Ligtenberg and Moschytz's eleven-multiplication factorisation with 13-bit constants; two extra bits are
//! kept between the passes. The same roundings at the same places give the same bytes as libjpeg. Eight blocks are
//! transformed at once: block `i` is lane `i` of every operation, so that neither pass has to exchange lanes.

/// Blocks transformed at once.
pub(super) const LANES: usize = 8;
/// One value of each block.
type Lanes = [i32; LANES];
/// Eight blocks, `[row][column]`.
pub(super) type Blocks = [[Lanes; 8]; 8];

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

#[inline(always)]
fn add(a: Lanes, b: Lanes) -> Lanes {
    std::array::from_fn(|i| a[i] + b[i])
}

#[inline(always)]
fn sub(a: Lanes, b: Lanes) -> Lanes {
    std::array::from_fn(|i| a[i] - b[i])
}

#[inline(always)]
fn mul(a: Lanes, factor: i32) -> Lanes {
    a.map(|a| a * factor)
}

/// Division by `2^bits`, rounded.
#[inline(always)]
fn descale(a: Lanes, bits: u32) -> Lanes {
    a.map(|a| (a + (1 << (bits - 1))) >> bits)
}

#[inline(always)]
fn column(blocks: &Blocks, x: usize) -> [Lanes; 8] {
    std::array::from_fn(|y| blocks[y][x])
}

#[inline(always)]
fn set_column(blocks: &mut Blocks, x: usize, column: [Lanes; 8]) {
    for (row, value) in blocks.iter_mut().zip(column) {
        row[x] = value;
    }
}

/// The four odd outputs (forward) or the odd half (inverse) of four inputs; the flow graph is its own transpose.
#[inline(always)]
fn odd([a, b, c, d]: [Lanes; 4]) -> [Lanes; 4] {
    let z5 = mul(add(add(a, c), add(b, d)), F_1_175);
    let z1 = mul(add(a, d), -F_0_899);
    let z2 = mul(add(b, c), -F_2_562);
    let z3 = add(mul(add(a, c), -F_1_961), z5);
    let z4 = add(mul(add(b, d), -F_0_390), z5);
    [
        add(mul(a, F_0_298), add(z1, z3)),
        add(mul(b, F_2_053), add(z2, z4)),
        add(mul(c, F_3_072), add(z2, z3)),
        add(mul(d, F_1_501), add(z1, z4)),
    ]
}

/// One forward pass: the first, which keeps `PASS1_BITS` more, or the second, which gives them back.
#[inline(always)]
fn forward_pass<const FIRST: bool>(d: &[Lanes; 8]) -> [Lanes; 8] {
    let bits = if FIRST { CONST_BITS - PASS1_BITS } else { CONST_BITS + PASS1_BITS };
    let (t0, t7) = (add(d[0], d[7]), sub(d[0], d[7]));
    let (t1, t6) = (add(d[1], d[6]), sub(d[1], d[6]));
    let (t2, t5) = (add(d[2], d[5]), sub(d[2], d[5]));
    let (t3, t4) = (add(d[3], d[4]), sub(d[3], d[4]));
    let (t10, t13) = (add(t0, t3), sub(t0, t3));
    let (t11, t12) = (add(t1, t2), sub(t1, t2));
    let z1 = mul(add(t12, t13), F_0_541);
    let [o7, o5, o3, o1] = odd([t4, t5, t6, t7]);
    [
        scale::<FIRST>(add(t10, t11)),
        descale(o1, bits),
        descale(add(z1, mul(t13, F_0_765)), bits),
        descale(o3, bits),
        scale::<FIRST>(sub(t10, t11)),
        descale(o5, bits),
        descale(add(z1, mul(t12, -F_1_847)), bits),
        descale(o7, bits),
    ]
}

/// Samples centred on zero become eight times their orthonormal coefficients.
#[inline(always)]
pub(super) fn forward(blocks: &mut Blocks) {
    for row in blocks.iter_mut() {
        *row = forward_pass::<true>(row);
    }
    for x in 0..8 {
        let line = forward_pass::<false>(&column(blocks, x));
        set_column(blocks, x, line);
    }
}

/// The two outputs of a forward pass that have no product.
#[inline(always)]
fn scale<const FIRST: bool>(a: Lanes) -> Lanes {
    if FIRST { a.map(|a| a << PASS1_BITS) } else { descale(a, PASS1_BITS) }
}

#[inline(always)]
fn inverse_pass(c: &[Lanes; 8], bits: u32) -> [Lanes; 8] {
    let z1 = mul(add(c[2], c[6]), F_0_541);
    let (t2, t3) = (add(z1, mul(c[6], -F_1_847)), add(z1, mul(c[2], F_0_765)));
    let (t0, t1) = (mul(add(c[0], c[4]), 1 << CONST_BITS), mul(sub(c[0], c[4]), 1 << CONST_BITS));
    let (t10, t13) = (add(t0, t3), sub(t0, t3));
    let (t11, t12) = (add(t1, t2), sub(t1, t2));
    let [o0, o1, o2, o3] = odd([c[7], c[5], c[3], c[1]]);
    [
        descale(add(t10, o3), bits),
        descale(add(t11, o2), bits),
        descale(add(t12, o1), bits),
        descale(add(t13, o0), bits),
        descale(sub(t13, o0), bits),
        descale(sub(t12, o1), bits),
        descale(sub(t11, o2), bits),
        descale(sub(t10, o3), bits),
    ]
}

/// Orthonormal coefficients become samples centred on zero.
#[inline(always)]
pub(super) fn inverse(blocks: &mut Blocks) {
    for x in 0..8 {
        let line = inverse_pass(&column(blocks, x), CONST_BITS - PASS1_BITS);
        set_column(blocks, x, line);
    }
    for row in blocks.iter_mut() {
        *row = inverse_pass(row, CONST_BITS + PASS1_BITS + 3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight different blocks of samples.
    fn samples() -> Blocks {
        std::array::from_fn(|y| {
            std::array::from_fn(|x| {
                std::array::from_fn(|lane| {
                    ((x * 31 + y * y * 17 + lane * x * y) % 256) as i32 - 128
                })
            })
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
            for (y, row) in samples.iter().enumerate() {
                for (x, sample) in row.iter().enumerate() {
                    expected +=
                        norm(u) * norm(v) * cosine(u, x) * cosine(v, y) * f64::from(sample[lane]);
                }
            }
            let found = f64::from(found[v][u][lane]);
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
        for coefficient in blocks.as_flattened_mut().as_flattened_mut() {
            *coefficient = (f64::from(*coefficient) / 8.0).round() as i32;
        }
        inverse(&mut blocks);
        for (found, expected) in
            blocks.as_flattened().as_flattened().iter().zip(samples().as_flattened().as_flattened())
        {
            // Whole coefficients: an error of at most a half each, mostly cancelling.
            assert!((found - expected).abs() <= 2);
        }
    }
}
