//! The 8x8 cosine transform and its inverse in the integers of libjpeg's accurate method.
//!
//! Loeffler, Ligtenberg and Moschytz's eleven-multiplication factorisation with 13-bit constants; two extra bits are
//! kept between the passes. The same roundings at the same places give the same bytes as libjpeg. Each pass works on
//! all eight lines at once: line `i` is lane `i` of every operation.

/// Eight lanes.
type Lanes = [i32; 8];
/// A block as eight lines of eight lanes.
pub(super) type Block = [Lanes; 8];

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
fn transpose(block: &Block) -> Block {
    std::array::from_fn(|i| std::array::from_fn(|j| block[j][i]))
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

/// One forward pass along the lines; `scale` finishes the two outputs without products, `bits` the others.
#[inline(always)]
fn forward_pass(d: &Block, scale: impl Fn(Lanes) -> Lanes, bits: u32) -> Block {
    let (t0, t7) = (add(d[0], d[7]), sub(d[0], d[7]));
    let (t1, t6) = (add(d[1], d[6]), sub(d[1], d[6]));
    let (t2, t5) = (add(d[2], d[5]), sub(d[2], d[5]));
    let (t3, t4) = (add(d[3], d[4]), sub(d[3], d[4]));
    let (t10, t13) = (add(t0, t3), sub(t0, t3));
    let (t11, t12) = (add(t1, t2), sub(t1, t2));
    let z1 = mul(add(t12, t13), F_0_541);
    let [o7, o5, o3, o1] = odd([t4, t5, t6, t7]);
    [
        scale(add(t10, t11)),
        descale(o1, bits),
        descale(add(z1, mul(t13, F_0_765)), bits),
        descale(o3, bits),
        scale(sub(t10, t11)),
        descale(o5, bits),
        descale(add(z1, mul(t12, -F_1_847)), bits),
        descale(o7, bits),
    ]
}

/// Coefficients `[v][u]`, eight times the orthonormal ones, of samples given transposed, `[x][y]`, centred on zero.
#[inline(always)]
pub(super) fn forward(samples: &Block) -> Block {
    let rows = forward_pass(samples, |a| a.map(|a| a << PASS1_BITS), CONST_BITS - PASS1_BITS);
    forward_pass(&transpose(&rows), |a| descale(a, PASS1_BITS), CONST_BITS + PASS1_BITS)
}

#[inline(always)]
fn inverse_pass(c: &Block, bits: u32) -> Block {
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

/// Samples centred on zero, transposed, `[x][y]`, of orthonormal coefficients `[v][u]`.
#[inline(always)]
pub(super) fn inverse(coefficients: &Block) -> Block {
    let columns = inverse_pass(coefficients, CONST_BITS - PASS1_BITS);
    inverse_pass(&transpose(&columns), CONST_BITS + PASS1_BITS + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_is_eight_times_the_cosine_transform() {
        let samples: Block = std::array::from_fn(|x| {
            std::array::from_fn(|y| ((x * 31 + y * y * 17) % 256) as i32 - 128)
        });
        let coefficients = forward(&samples);
        for (v, line) in coefficients.iter().enumerate() {
            for (u, &found) in line.iter().enumerate() {
                let cosine = |k: usize, n: usize| {
                    (std::f64::consts::PI * (2 * n + 1) as f64 * k as f64 / 16.0).cos()
                };
                let norm = |k: usize| if k == 0 { 0.125_f64.sqrt() } else { 0.5 };
                let mut expected = 0.0;
                for (x, column) in samples.iter().enumerate() {
                    for (y, &sample) in column.iter().enumerate() {
                        expected +=
                            norm(u) * norm(v) * cosine(u, x) * cosine(v, y) * f64::from(sample);
                    }
                }
                assert!(
                    (f64::from(found) - 8.0 * expected).abs() < 2.0,
                    "({v}, {u}): {found}, {}",
                    8.0 * expected
                );
            }
        }
    }

    #[test]
    fn the_inverse_returns_the_samples() {
        let samples: Block = std::array::from_fn(|x| {
            std::array::from_fn(|y| ((x * 97 + y * 41) % 256) as i32 - 128)
        });
        let coefficients =
            forward(&samples).map(|line| line.map(|c| (f64::from(c) / 8.0).round() as i32));
        for (found, expected) in
            inverse(&coefficients).iter().flatten().zip(samples.iter().flatten())
        {
            // Whole coefficients: an error of at most a half each, mostly cancelling.
            assert!((found - expected).abs() <= 2);
        }
    }
}
