//! Elementary functions written so that the compiler turns loops over them into vector code.
//!
//! No branches and no table look-ups. Fused multiplications and additions are asked for by name, because the compiler
//! may not choose them: the same bits on every CPU, whatever the vector width, and slow only on one that lacks them.

/// Accumulators of a sum: enough for one AVX-512 register, and the fixed order of every reduction.
pub(super) const LANES: usize = 16;

/// `eˣ`, relative error below 2e-7; 0 below -87.3, and `e^88.3` (2.2e38) instead of an overflow above 88.3.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: the first has few bits, so that n * LN2_HIGH is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.3, 88.3);
    let shifted = clamped.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    // Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln2/2, ln2/2] (Cephes).
    let mut p: f32 = 1.987_569_1e-4;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 5.000_000_3e-1);
    let mantissa = (p * r).mul_add(r, r) + 1.0;
    // The integer n stands in the low bits of `shifted` (a cast would check for overflow, one element at a time);
    // it is within [-126, 127], so the power of two is a normal number.
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    let power = f32::from_bits(exponent << 23);
    let y = mantissa * power;
    if x < -87.3 { 0.0 } else { y }
}

/// `Φ(x)`, the distribution function of the normal distribution, absolute error below 3e-7.
#[inline(always)]
pub(super) fn normal(x: f32) -> f32 {
    // ½ + x P(x²) / Q(x²), fitted for the least largest error between the ends, 1e-8; the rest is rounding, which may
    // lead 2e-7 out of [0, 1] close to the ends. At the ends it is 0 and 1.
    const END: f32 = 5.601;
    let x = x.clamp(-END, END);
    let s = x * x;
    let mut p: f32 = 2.214_510_4e-8;
    p = p.mul_add(s, 6.356_427_5e-6);
    p = p.mul_add(s, 1.738_467_4e-4);
    p = p.mul_add(s, 4.707_235e-3);
    p = p.mul_add(s, 3.437_58e-2);
    p = p.mul_add(s, 3.989_422_3e-1);
    let mut q: f32 = 1.180_198e-6;
    q = q.mul_add(s, 7.510_022e-5);
    q = q.mul_add(s, 1.912_956_4e-3);
    q = q.mul_add(s, 2.893_99e-2);
    q = q.mul_add(s, 2.528_330_7e-1);
    q = q.mul_add(s, 1.0);
    0.5 + x * p / q
}

/// `x Φ(x)` and its derivative `Φ(x) + x φ(x)`.
#[inline(always)]
pub(super) fn gelu(x: f32) -> (f32, f32) {
    let cdf = normal(x);
    let density = exp(-0.5 * x * x) * 0.398_942_3;
    (x * cdf, x.mul_add(density, cdf))
}

/// `x σ(u)` and its derivative, for `u` and `du/dx`.
#[inline(always)]
fn gated(x: f32, u: f32, rise: f32) -> (f32, f32) {
    let gate = 1.0 / (1.0 + exp(-u));
    (x * gate, gate + x * gate * (1.0 - gate) * rise)
}

/// `x σ(r x)` and its derivative.
#[inline(always)]
pub(super) fn swish(x: f32, rate: f32) -> (f32, f32) {
    gated(x, rate * x, rate)
}

/// `½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))`, as `x σ(2 ..)`, and its derivative.
#[inline(always)]
pub(super) fn gelu_tanh(x: f32) -> (f32, f32) {
    const RATE: f32 = 1.595_769;
    const CUBIC: f32 = 0.044_715;
    let square = x * x;
    gated(x, RATE * x * (1.0 + CUBIC * square), RATE * (1.0 + 3.0 * CUBIC * square))
}

/// [`LANES`] interleaved accumulators, joined pairwise.
#[inline(always)]
fn joined(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Their sum.
#[inline(always)]
fn total(lanes: [f32; LANES]) -> f32 {
    joined(lanes, |a, b| a + b)
}

/// `Σ f(x)`, in [`LANES`] interleaved accumulators.
#[inline(always)]
pub(super) fn sum_map(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += f(chunk[lane]);
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        lanes[lane] += f(x);
    }
    total(lanes)
}

/// `Σ f(a, b)` over two slices of one length.
#[inline(always)]
pub(super) fn sum_zip(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += f(a[lane], b[lane]);
        }
    }
    for (lane, (&a, &b)) in rest_a.iter().zip(rest_b).enumerate() {
        lanes[lane] += f(a, b);
    }
    total(lanes)
}

/// The sums of both results of `f(a, b)`. Two passes: of one for both the compiler leaves a part scalar.
#[inline(always)]
pub(super) fn sums_zip(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> [f32; 2]) -> [f32; 2] {
    [sum_zip(a, b, |a, b| f(a, b)[0]), sum_zip(a, b, |a, b| f(a, b)[1])]
}

#[inline(always)]
pub(super) fn sum(x: &[f32]) -> f32 {
    sum_map(x, |x| x)
}

#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum_zip(a, b, |a, b| a * b)
}

#[inline(always)]
pub(super) fn max(x: &[f32]) -> f32 {
    let larger = |best: f32, value: f32| if value > best { value } else { best };
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    rest.iter().fold(joined(lanes, larger), |best, &value| larger(best, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> impl Iterator<Item = f32> {
        (-12_000..=12_000).map(|i| i as f32 * 7.25e-3)
    }

    #[test]
    fn exp_agrees_with_f64() {
        for x in grid() {
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected.max(1e-38);
            assert!(error < 2e-7 || expected < 2e-38, "exp({x}): relative error {error}");
        }
        assert_eq!(exp(-200.0), 0.0);
        assert!(exp(200.0).is_finite());
    }

    #[test]
    fn normal_agrees_with_an_integral() {
        // Simpson's rule on the density, from far below.
        let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let (step, mut cdf, mut x) = (1.0 / 512.0, 0.0, -10.0);
        while x < 6.0 {
            cdf += step / 6.0 * (density(x) + 4.0 * density(x + step / 2.0) + density(x + step));
            x += step;
            let found = f64::from(normal(x as f32));
            assert!((found - cdf).abs() < 3e-7, "cdf({x}): {found} against {cdf}");
            let slope = f64::from(gelu(x as f32).1);
            let expected = cdf + x * density(x);
            assert!((slope - expected).abs() < 1e-6, "slope at {x}: {slope} against {expected}");
        }
        assert_eq!([-1e30, -5.601, 0.0, 5.601, 1e30].map(normal), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert!(normal(f32::NAN).is_nan());
    }

    #[test]
    fn sums_cover_every_element() {
        for n in 0..70_usize {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            assert_eq!(sum(&x), (n * n.saturating_sub(1) / 2) as f32);
            assert_eq!(dot(&x, &x), x.iter().map(|v| v * v).sum::<f32>());
            assert_eq!(max(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
    }
}
