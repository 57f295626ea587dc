//! Seeded generators, derived by purpose.
//!
//! Every random draw of a run comes from one [`Seed`] and names its purpose. Two purposes never share a stream, so
//! adding a draw in one place changes no draw in another.
//!
//! ```
//! use paint_rng::Seed;
//! let mut a = Seed(7).derive("paint/mixup", &[0, 12]);
//! let mut b = Seed(7).derive("paint/mixup", &[0, 12]);
//! assert_eq!(a.uniform(), b.uniform());
//! ```

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The generator for one `purpose` at one point of the run (`path`: domain, step, image index, ...).
    pub fn derive(self, purpose: &str, path: &[u64]) -> Rng {
        // SplitMix64 inside `seed_from_u64` spreads the bits.
        let mut hash = Fnv::default();
        let mut feed = |bytes: &[u8]| bytes.iter().for_each(|&byte| hash.feed(byte));
        feed(&self.0.to_le_bytes());
        feed(purpose.as_bytes());
        feed(&[0xff]);
        for part in path {
            feed(&part.to_le_bytes());
        }
        Rng(Xoshiro256PlusPlus::seed_from_u64(hash.0))
    }
}

/// FNV-1a over words. A fingerprint that detects accidental differences; it does not resist an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv(pub u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a word.
    pub fn feed(&mut self, word: impl Into<u64>) {
        self.0 = (self.0 ^ word.into()).wrapping_mul(0x0100_0000_01b3);
    }

    /// The hash of these words.
    pub fn of(words: impl Iterator<Item = u64>) -> u64 {
        let mut hash = Self::default();
        words.for_each(|word| hash.feed(word));
        hash.0
    }
}

/// One stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Uniform in `[low, high)`.
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in `0..n`; `n` must not be zero.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }

    /// A draw from N(0, 1).
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// A draw from any distribution of `rand_distr`.
    pub fn sample<T>(&mut self, distribution: &impl rand_distr::Distribution<T>) -> T {
        distribution.sample(&mut self.0)
    }

    /// A random order of `0..n` (Fisher-Yates).
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purpose_and_path_both_change_the_stream() {
        let draw = |purpose, path: &[u64]| Seed(1).derive(purpose, path).next_u64();
        assert_ne!(draw("a", &[1]), draw("b", &[1]));
        assert_ne!(draw("a", &[1]), draw("a", &[2]));
        assert_ne!(draw("a", &[1]), Seed(2).derive("a", &[1]).next_u64());
    }

    #[test]
    fn a_permutation_holds_every_index_once() {
        let mut order = Seed(3).derive("order", &[]).permutation(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
