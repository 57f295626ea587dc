//! ROID's weights of samples, and its prior over the classes of a batch.

/// The weights of a batch.
pub(super) struct Weights {
    /// `w_i`, 0 for what is left out.
    pub(super) values: Vec<f32>,
}

impl Weights {
    /// All samples alike.
    pub(super) fn even(b: usize) -> Self {
        Self { values: vec![1.0; b] }
    }

    /// Of probabilities `p`, `[B, C]`, and their entropies, with `usual` the prediction that is usual.
    pub(super) fn new(usual: &[f32], p: &[f32], entropies: &[f32], temperature: f64) -> Self {
        let unlike = spread(p.chunks(usual.len()).map(|row| 1.0 - cosine(usual, row)).collect());
        let mean = unlike.iter().sum::<f64>() / unlike.len() as f64;
        let certain = spread(entropies.iter().map(|e| -f64::from(*e)).collect());
        let weight = |(unlike, certain): (&f64, f64)| {
            if *unlike < mean { 0.0 } else { (unlike * certain / temperature).exp() as f32 }
        };
        Self { values: unlike.iter().zip(certain).map(weight).collect() }
    }

    /// `S`.
    pub(super) fn kept(&self) -> Vec<usize> {
        (0..self.values.len()).filter(|&i| self.values[i] > 0.0).collect()
    }
}

/// `mm`: the least value at 0 and the greatest at 1; all at 0 where they are equal.
fn spread(values: Vec<f64>) -> Vec<f64> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = if most > least { most - least } else { 1.0 };
    values.into_iter().map(|value| (value - least) / range).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

/// `π'` of probabilities `[B, C]`.
pub(super) fn prior(p: &[f32], c: usize) -> Vec<f32> {
    let b = p.len() / c;
    let mean = |k: usize| p.iter().skip(k).step_by(c).sum::<f32>() / b as f32;
    let mean: Vec<f32> = (0..c).map(mean).collect();
    let most = mean.iter().copied().fold(0.0, f32::max);
    let smooth = (1.0 / b as f32).max(1.0 / c as f32) / most;
    mean.into_iter().map(|p| (p + smooth) / (1.0 + smooth * c as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_prediction_is_left_out_and_a_sure_unusual_one_counts_most() {
        let usual = [0.8, 0.1, 0.1];
        let p = [0.8, 0.1, 0.1, 0.05, 0.9, 0.05, 0.2, 0.4, 0.4];
        let entropy = |row: &[f32]| row.iter().map(|p| -p * p.ln()).sum::<f32>();
        let entropies: Vec<f32> = p.chunks(3).map(entropy).collect();
        let weights = Weights::new(&usual, &p, &entropies, 1.0 / 3.0);
        assert_eq!(weights.kept(), [1, 2]);
        assert_eq!(weights.values[0], 0.0);
        // The second is the least usual and the surest: its weight is e^3.
        assert!((weights.values[1] - 3_f32.exp()).abs() < 1e-4, "{:?}", weights.values);
        // The third has the greatest entropy: its weight is e^0.
        assert!((weights.values[2] - 1.0).abs() < 1e-6, "{:?}", weights.values);
    }

    #[test]
    fn samples_that_are_all_alike_have_weight_one() {
        let weights = Weights::new(&[0.5, 0.5], &[0.9, 0.1], &[0.3], 1.0 / 3.0);
        assert_eq!(weights.values, [1.0]);
        assert_eq!(Weights::even(3).values, [1.0; 3]);
    }

    /// Four images, two classes, `π` = (0.75, 0.25): `s` is 0.5 / 0.75, and `π'` = (0.75 + 2/3) / (1 + 4/3).
    #[test]
    fn the_prior_is_smoothed_as_in_the_worked_example() {
        let found = prior(&[0.7, 0.3, 0.8, 0.2, 0.9, 0.1, 0.6, 0.4], 2);
        assert!((found[0] - (0.75 + 2.0 / 3.0) / (7.0 / 3.0)).abs() < 1e-6, "{found:?}");
        assert!((found.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let even = prior(&[0.5, 0.5, 0.5, 0.5], 2);
        assert!(even.iter().all(|p| (p - 0.5).abs() < 1e-6), "a mixed batch moves nothing");
    }
}
