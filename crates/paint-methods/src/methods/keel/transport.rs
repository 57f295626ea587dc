//! How far and along which map tokens move (Eq. 3 to 6).

use paint_tensor::{Device, Tensor, evidence};

use crate::statistics::PatchStatistics;
use crate::{Result, eigen};

/// After so many more images a map is made anew; sooner, when the images have doubled.
const REFRESH: u64 = 200;
/// The smallest eigenvalue that counts, as a share of the largest.
const FLOOR: f64 = 1e-7;

/// `d` of Eq. 3: the mean over the channels of the square of a shift `m - μ_s`, in variances `between` images.
fn squared(shift: &[f64], between: &[f32]) -> f64 {
    let ratios = shift.iter().zip(between).map(|(x, c)| x * x / f64::from(*c));
    ratios.sum::<f64>() / shift.len() as f64
}

/// Where the patches of a domain go: `x + w (μ_s - m) + (P - p) w (A - I) U` (Eq. 4).
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// The images that the domain had seen when it was made.
    pub(super) seen: u64,
    /// `m`.
    pub(super) centre: Vec<f32>,
    /// `w (A - I)`, `[r, r]`, symmetric.
    pub(super) turn: Vec<f32>,
    /// `w`.
    pub(super) weight: f32,
    /// `w U^T (A - I)`, `[D, r]`, and what is added, `[D]`: as the device takes them.
    pub(super) placed: Option<(Tensor, Tensor)>,
}

/// What a map rests on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    /// Images that the domain has seen.
    pub(super) seen: u64,
    /// Those that its statistics remember.
    pub(super) images: f64,
    /// Independent draws that those amount to.
    pub(super) draws: f64,
    /// Clean images, `n_s`.
    pub(super) clean: f64,
}

impl Map {
    /// Whether a domain that has seen `seen` images needs another map than this.
    pub(super) fn is_stale(&self, seen: u64) -> bool {
        seen - self.seen >= REFRESH.min(self.seen)
    }

    /// The map for patches of mean `mean` and second moment `square` around `μ_s`. `strength` is `s`.
    pub(super) fn new(
        source: &PatchStatistics,
        (mean, square): (&[f32], &[f32]),
        Counts { seen, images: n, draws, clean }: Counts,
        (strength, shrinkage): (f64, f64),
    ) -> Self {
        let shift: Vec<f64> =
            mean.iter().zip(&source.mean).map(|(m, s)| f64::from(*m) - f64::from(*s)).collect();
        let weight = strength * evidence(squared(&shift, &source.between), draws, clean);
        let (r, p) = (source.rank(), source.project(&shift));
        let turn = if weight > 0.0 {
            let covariance = |at: usize| f64::from(square[at]) - p[at / r] * p[at % r];
            let prior = |at: usize| {
                if at / r == at % r { f64::from(source.scale[at / r]).powi(2) } else { 0.0 }
            };
            let shrunk = |at| (n * covariance(at) + shrinkage * prior(at)) / (n + shrinkage);
            let shrunk: Vec<f64> = (0..r * r).map(shrunk).collect();
            transport(&shrunk, &source.scale).iter().map(|x| (weight * x) as f32).collect()
        } else {
            vec![0.0; r * r]
        };
        Self { seen, centre: mean.to_vec(), turn, weight: weight as f32, placed: None }
    }

    /// Brings the map to the device.
    pub(super) fn place(&mut self, source: &PatchStatistics, device: &Device) -> Result<()> {
        let (r, d) = (source.rank(), source.mean.len());
        let mut turned = vec![0.0_f32; d * r]; // [D, r]
        for (u, turn) in source.basis.chunks_exact(d).zip(self.turn.chunks_exact(r)) {
            for (out, u) in turned.chunks_exact_mut(r).zip(u) {
                out.iter_mut().zip(turn).for_each(|(out, t)| *out += t * u);
            }
        }
        let shift: Vec<f64> = self
            .centre
            .iter()
            .zip(&source.mean)
            .map(|(m, s)| f64::from(*m) - f64::from(*s))
            .collect();
        let p = source.project(&shift);
        let added = shift.iter().zip(turned.chunks_exact(r)).map(|(shift, row)| {
            let back: f64 = row.iter().zip(&p).map(|(t, p)| f64::from(*t) * p).sum();
            (-f64::from(self.weight) * shift - back) as f32
        });
        let added = Tensor::from_vec(added.collect(), [d], device)?;
        self.placed = Some((Tensor::from_vec(turned, [d, r], device)?, added));
        Ok(())
    }
}

/// `A - I` of Eq. 6: `A = R (R Σ R)^(-½) R` with `R = diag(λ^½)` takes the covariance `Σ` to `R²`, and is the map of
/// least displacement between normal distributions that does.
fn transport(covariance: &[f64], scale: &[f32]) -> Vec<f64> {
    let r = scale.len();
    let scaled = |(at, x): (usize, &f64)| x * f64::from(scale[at / r]) * f64::from(scale[at % r]);
    let eigen = eigen::symmetric(covariance.iter().enumerate().map(scaled).collect(), r);
    let least = FLOOR * eigen.values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let mut a = eigen.function(|value| 1.0 / value.max(least).sqrt());
    for (at, x) in a.iter_mut().enumerate() {
        *x *= f64::from(scale[at / r]) * f64::from(scale[at % r]);
        if at / r == at % r {
            *x -= 1.0;
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transported_covariance_is_the_sources() {
        let scale = [2.0_f32, 1.0, 0.5];
        let sigma = [3.0, 0.4, 0.1, 0.4, 2.0, -0.3, 0.1, -0.3, 1.0];
        let a: Vec<f64> = transport(&sigma, &scale)
            .iter()
            .enumerate()
            .map(|(at, x)| x + f64::from(u8::from(at / 3 == at % 3)))
            .collect();
        let at = |m: &[f64], i: usize, j: usize| m[i * 3 + j];
        for i in 0..3 {
            for j in 0..3 {
                let moved: f64 = (0..9)
                    .map(|k| at(&a, i, k / 3) * at(&sigma, k / 3, k % 3) * at(&a, k % 3, j))
                    .sum();
                let expected = if i == j { f64::from(scale[i]).powi(2) } else { 0.0 };
                assert!((moved - expected).abs() < 1e-12, "{i} {j}: {moved}");
                assert!((at(&a, i, j) - at(&a, j, i)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_shift_is_measured_in_variances() {
        assert_eq!(squared(&[3.0, 6.0], &[1.0, 4.0]), 9.0);
        assert!((squared(&[0.1, 0.2], &[1.0, 4.0]) - 0.01).abs() < 1e-12);
    }
}
