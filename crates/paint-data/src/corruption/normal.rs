//! Standard normal draws in single precision, two from 64 random bits.
//!
//! The ziggurat of Marsaglia and Tsang (J. Stat. Softw. 5(8), 2000) with 256 layers of equal area `V`. Layer, sign and
//! position come from separate bits of each half word, so they are independent. 8-bit pixels need no more precision
//! than the 24 bits that remain, and a noise corruption is little else than these draws.

use std::sync::OnceLock;

use paint_rng::Rng;

const LAYERS: usize = 256;
/// Where the tail begins.
const R: f64 = 3.654_152_885_361_009;
/// The area of each layer under `exp(-x²/2)`.
const V: f64 = 0.004_928_673_233_974_655;

/// The layers of the ziggurat.
#[derive(Clone, Copy)]
pub(super) struct Normals(&'static Tables);

struct Tables {
    /// The layers' right edges, outermost first; one more than layers, the last is 0.
    edge: [f32; LAYERS + 1],
    /// `exp(-x²/2)` at the edges.
    density: [f64; LAYERS + 1],
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp()
}

impl Tables {
    fn new() -> Self {
        // The bottom layer holds the tail: as a rectangle of the same area it is wider than R.
        let mut x = [0.0; LAYERS + 1];
        x[0] = V / density(R);
        x[1] = R;
        for i in 2..LAYERS {
            x[i] = (-2.0 * (V / x[i - 1] + density(x[i - 1])).ln()).sqrt();
        }
        Self { edge: x.map(|x| x as f32), density: x.map(density) }
    }
}

impl Normals {
    pub(super) fn new() -> Self {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        Self(TABLES.get_or_init(Tables::new))
    }

    /// Two independent draws from N(0, 1).
    #[inline]
    pub(super) fn pair(self, rng: &mut Rng) -> [f32; 2] {
        let bits = rng.next_u64();
        [self.one(bits as u32, rng), self.one((bits >> 32) as u32, rng)]
    }

    #[inline]
    fn one(self, bits: u32, rng: &mut Rng) -> f32 {
        let layer = (bits & 0xff) as usize;
        // Uniform in (-1, 1), symmetric: the half step keeps both signs equally likely.
        let u = ((bits.cast_signed() >> 8) as f32 + 0.5) * 2f32.powi(-23);
        let x = u * self.0.edge[layer];
        if x.abs() < self.0.edge[layer + 1] { x } else { self.outside(layer, x, rng) }
    }

    /// The part of a layer that the curve cuts, and the tail.
    #[cold]
    fn outside(self, layer: usize, x: f32, rng: &mut Rng) -> f32 {
        if layer == 0 {
            return tail(rng).copysign(x);
        }
        let (low, high) = (self.0.density[layer], self.0.density[layer + 1]);
        if low + rng.uniform() * (high - low) < density(f64::from(x)) {
            x
        } else {
            self.pair(rng)[0]
        }
    }
}

/// A draw beyond `R` by Marsaglia's exponential rejection.
fn tail(rng: &mut Rng) -> f32 {
    loop {
        let x = -(1.0 - rng.uniform()).ln() / R;
        let y = -(1.0 - rng.uniform()).ln();
        if 2.0 * y > x * x {
            return (R + x) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paint_rng::Seed;

    #[test]
    fn the_last_layer_closes_at_the_peak() {
        let tables = Tables::new();
        let top = f64::from(tables.edge[LAYERS - 1]);
        assert!((top * (1.0 - density(top)) - V).abs() < 1e-6, "area of the last layer");
    }

    #[test]
    fn moments_and_tails_are_those_of_the_normal_distribution() {
        let normals = Normals::new();
        let mut rng = Seed(5).derive("normals", &[]);
        let n = 2_000_000;
        let mut sums = [0.0; 4];
        let mut beyond = [0.0; 4];
        for z in (0..n / 2).flat_map(|_| normals.pair(&mut rng)) {
            let z = f64::from(z);
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += z.powi(power as i32 + 1) / f64::from(n);
            }
            for (limit, count) in beyond.iter_mut().enumerate() {
                *count += f64::from(z > limit as f64 + 1.0) / f64::from(n);
            }
        }
        // Five standard errors of each moment of 2e6 draws: sqrt(var / n) with variances 1, 2, 15, 96.
        for (sum, (expected, tolerance)) in
            sums.iter().zip([(0.0, 4e-3), (1.0, 5e-3), (0.0, 1.4e-2), (3.0, 3.5e-2)])
        {
            assert!((sum - expected).abs() < tolerance, "moments {sums:?}");
        }
        // P(z > 1), ..., P(z > 4), within five standard errors.
        for (share, p) in beyond.iter().zip([0.158_655, 0.022_750, 0.001_350, 0.000_031_7]) {
            assert!((share - p).abs() < 5.0 * (p / f64::from(n)).sqrt(), "tails {beyond:?}");
        }
    }
}
