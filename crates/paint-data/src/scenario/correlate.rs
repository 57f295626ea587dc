//! Temporal correlation: like classes close together.
//!
//! Dirichlet, as the field does it: time is cut into slots (one for each class, 100 at most); each class c draws
//! shares `q_c ~ Dirichlet(delta, .., delta)` over the slots and its images, in order, fill them by these shares; a
//! slot's images come class by class. A small delta puts a class into one slot, a large one spreads it evenly.

use paint_rng::Rng;
use rand_distr::Gamma;

use super::{Config, Correlation, SampleRef};
use crate::{Dataset, Error, Result};

const DEFAULT_DELTA: f64 = 0.1;
const MAX_SLOTS: usize = 100;

/// The samples of each class, in order.
pub(super) fn by_class(
    dataset: &dyn Dataset,
    samples: Vec<SampleRef>,
) -> Result<Vec<Vec<SampleRef>>> {
    let num_classes = dataset.info().num_classes;
    let mut classes = vec![Vec::new(); num_classes];
    for sample in samples {
        let label = dataset.label(sample.domain, sample.index).filter(|&label| label < num_classes);
        let label = label.ok_or_else(|| Error::Argument {
            what: "scenario by class",
            expected: "a label for every image".into(),
            got: format!(
                "image {} of domain {}",
                sample.index,
                dataset.domains()[sample.domain].name
            ),
        })?;
        classes[label].push(sample);
    }
    Ok(classes)
}

/// The same samples in another order.
pub(super) fn reorder(
    dataset: &dyn Dataset,
    config: &Config,
    samples: Vec<SampleRef>,
    rng: &mut Rng,
) -> Result<Vec<SampleRef>> {
    let classes = by_class(dataset, samples)?;
    match config.correlation.unwrap_or_default() {
        Correlation::Sorted => Ok(classes.concat()),
        Correlation::Dirichlet => {
            let gamma = gamma(config.delta.unwrap_or(DEFAULT_DELTA))?;
            let mut slots = vec![Vec::new(); classes.len().clamp(1, MAX_SLOTS)];
            for class in &classes {
                let shares = dirichlet(&gamma, slots.len(), rng);
                for (slot, part) in slots.iter_mut().zip(split(class, &shares)) {
                    slot.extend_from_slice(part);
                }
            }
            Ok(slots.concat())
        }
    }
}

/// The distribution whose normalised draws are those of a symmetric Dirichlet distribution.
pub(super) fn gamma(delta: f64) -> Result<Gamma<f64>> {
    let (expected, got) = ("a shape of the gamma distribution".into(), delta.to_string());
    Gamma::new(delta, 1.0).map_err(|_| Error::Argument { what: "delta", expected, got })
}

/// A draw from the symmetric Dirichlet distribution: gamma draws, normalised.
pub(super) fn dirichlet(gamma: &Gamma<f64>, n: usize, rng: &mut Rng) -> Vec<f64> {
    let mut shares: Vec<f64> = (0..n).map(|_| rng.sample(gamma)).collect();
    let sum: f64 = shares.iter().sum();
    if sum > 0.0 {
        shares.iter_mut().for_each(|share| *share /= sum);
    } else {
        // A tiny concentration underflows; its limit is all in one place.
        shares[rng.below(n)] = 1.0;
    }
    shares
}

/// Cuts `items` where the running sum of the shares says, rounded down; the last part takes the rest.
pub(super) fn split<'a, T>(items: &'a [T], shares: &[f64]) -> Vec<&'a [T]> {
    let mut sum = 0.0;
    let mut start = 0;
    let mut parts = Vec::with_capacity(shares.len());
    for (i, share) in shares.iter().enumerate() {
        sum += share;
        let last = i + 1 == shares.len();
        let end = if last {
            items.len()
        } else {
            ((sum * items.len() as f64) as usize).clamp(start, items.len())
        };
        parts.push(&items[start..end]);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    #[test]
    fn parts_follow_the_shares_and_hold_everything() {
        let items: Vec<usize> = (0..10).collect();
        assert_eq!(split(&items, &[0.25, 0.5, 0.25]), [&items[..2], &items[2..7], &items[7..]]);
        assert_eq!(split(&items, &[0.0, 1.0, 0.0]), [&items[..0], &items[..], &items[10..]]);
        assert_eq!(split(&items[..0], &[0.5, 0.5]), [&items[..0], &items[..0]]);
    }

    #[test]
    fn dirichlet_shares_have_the_mean_and_variance_of_the_distribution() {
        let (n, delta, draws) = (8, 0.5, 20_000);
        let gamma = Gamma::new(delta, 1.0).unwrap();
        let mut rng = Seed(1).derive("test", &[]);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let shares = dirichlet(&gamma, n, &mut rng);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            sum += shares[3];
            squares += shares[3] * shares[3];
        }
        let mean = sum / f64::from(draws);
        let variance = squares / f64::from(draws) - mean * mean;
        // Mean 1/n, variance (1/n)(1 - 1/n) / (n delta + 1). Tolerances: five standard errors of 20,000 draws.
        assert!((mean - 0.125).abs() < 0.006, "{mean}");
        assert!((variance - 0.125 * 0.875 / 5.0).abs() < 0.0015, "{variance}");
    }

    #[test]
    fn a_concentration_that_underflows_picks_one_slot() {
        let gamma = Gamma::new(1e-300, 1.0).unwrap();
        let shares = dirichlet(&gamma, 5, &mut Seed(1).derive("test", &[]));
        assert_eq!(
            (shares.iter().sum::<f64>(), shares.iter().filter(|&&share| share > 0.0).count()),
            (1.0, 1)
        );
    }
}
