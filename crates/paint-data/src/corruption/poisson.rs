//! Poisson counts of the 256 possible brightnesses, by inversion.
//!
//! An 8-bit image has 256 different means, so the cumulative distributions are tabulated once per photon count and a
//! draw is a short search from a guide entry. Counts of `photons` and above are all white: the tables stop there.

use std::sync::{Arc, Mutex, PoisonError};

/// The top bits of a draw that choose its guide entry.
const GUIDE_BITS: u32 = 7;
const GUIDE: usize = 1 << GUIDE_BITS;

/// The tables of one photon count `c`.
pub(super) struct Counts {
    /// Per brightness: the place in `cumulative` where the search of each guide entry starts.
    guide: Vec<[u32; GUIDE]>,
    /// `P(count ≤ k)` in units of 2⁻³², all brightnesses one after the other; each ends with the largest `u32`.
    cumulative: Vec<u32>,
    /// Per entry of `cumulative`: the output level of its count `k`, `255 min(k / c, 1)` truncated.
    levels: Vec<u8>,
}

impl Counts {
    /// The tables for `photons` at full brightness, made on first use.
    pub(super) fn of(photons: u32) -> Arc<Self> {
        static MADE: Mutex<Vec<(u32, Arc<Counts>)>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counts)) = made.iter().find(|(known, _)| *known == photons) {
            return Arc::clone(counts);
        }
        let counts = Arc::new(Self::new(photons));
        made.push((photons, Arc::clone(&counts)));
        counts
    }

    fn new(photons: u32) -> Self {
        let mut tables =
            Self { guide: Vec::with_capacity(256), cumulative: Vec::new(), levels: Vec::new() };
        for value in 0..256_u32 {
            tables.push(photons, f64::from(value) / 255.0 * f64::from(photons));
        }
        tables
    }

    fn push(&mut self, photons: u32, mean: f64) {
        let start = self.cumulative.len();
        let (mut p, mut sum) = ((-mean).exp(), 0.0);
        for k in 0..=photons {
            sum += p;
            p *= mean / f64::from(k + 1);
            let threshold = (sum * 2f64.powi(32)) as u32;
            let last = k == photons || threshold == u32::MAX;
            if threshold > 0 || last {
                self.cumulative.push(if last { u32::MAX } else { threshold });
                self.levels.push((f64::from(k) / f64::from(photons) * 255.0) as u8);
            }
            if last {
                break;
            }
        }
        let mut guide = [0; GUIDE];
        let mut place = start;
        for (entry, at) in guide.iter_mut().enumerate() {
            let u = (entry as u32) << (32 - GUIDE_BITS);
            while self.cumulative[place] < u {
                place += 1;
            }
            *at = place as u32;
        }
        self.guide.push(guide);
    }

    /// The output level of a pixel `value` for 32 random bits `u`.
    #[inline]
    pub(super) fn level(&self, value: u8, u: u32) -> u8 {
        let mut place = self.guide[usize::from(value)][(u >> (32 - GUIDE_BITS)) as usize] as usize;
        while self.cumulative[place] < u {
            place += 1;
        }
        self.levels[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_counts_follow_the_poisson_distribution() {
        let counts = Counts::new(3);
        // Brightness 170 has mean 2: P(0) = e^-2, P(1) = 2 e^-2, P(2) = 2 e^-2; three and more are white.
        let mut shares = [0.0; 256];
        let n = 1 << 16;
        for i in 0..n {
            shares[usize::from(counts.level(170, i << 16))] += 1.0 / f64::from(n);
        }
        let e2 = (-2.0_f64).exp();
        for (level, p) in [(0, e2), (85, 2.0 * e2), (170, 2.0 * e2), (255, 1.0 - 5.0 * e2)] {
            assert!(
                (shares[level] - p).abs() < 1e-4,
                "level {level}: {} instead of {p}",
                shares[level]
            );
        }
    }

    #[test]
    fn black_stays_black_and_a_bright_table_has_the_right_mean() {
        let counts = Counts::new(500);
        assert_eq!(counts.level(0, 12345), 0);
        assert_eq!(counts.level(0, u32::MAX), 0);
        let n = 1 << 16;
        let mean: f64 =
            (0..n).map(|i| f64::from(counts.level(100, i << 16))).sum::<f64>() / f64::from(n);
        // Truncation takes half a level on average.
        assert!((mean - 99.5).abs() < 0.1, "{mean}");
    }
}
