//! What GAIN remembers of every class, and the Gaussian model that follows from it.

use paint_nn::state::State;
use paint_tensor::{Device, Tensor};

use super::log_softmax;
use crate::{Error, Result};

/// The variance of a channel before any image.
const FIRST_VARIANCE: f64 = 1.0;

/// Sums over the images so far. They are single precision, so that a saved state is all there is.
#[derive(Debug, Clone)]
pub(super) struct Classes {
    /// `c`, `[K, D]`.
    rows: Vec<f32>,
    /// The factor of the rows.
    scale: f32,
    /// `κ₀`.
    kappa: f64,
    /// `n`, `[K]`.
    weights: Vec<f32>,
    /// `n̂`, `[K]`.
    predicted: Vec<f32>,
    /// `Q`, `[K]`.
    squares: Vec<f32>,
    /// `U`, `[K, D]`.
    sums: Vec<f32>,
    /// `V`, `[D]`.
    powers: Vec<f32>,
}

/// The distribution of features by class (Eq. 1).
pub(super) struct Model {
    /// `m`, `[K, D]`.
    means: Vec<f64>,
    /// `1/v`, `[D]`.
    precision: Vec<f64>,
    /// `ln π`, up to a constant.
    prior: Vec<f64>,
    /// `h`.
    spread: Vec<f64>,
}

impl Classes {
    /// `rows` `[K, D]`, flat.
    pub(super) fn new(rows: Vec<f32>, count: usize, kappa: f64) -> Self {
        let width = rows.len() / count;
        let zeros = || vec![0.0; count];
        Self {
            sums: vec![0.0; rows.len()],
            rows,
            scale: 1.0,
            kappa,
            weights: zeros(),
            predicted: zeros(),
            squares: zeros(),
            powers: vec![0.0; width],
        }
    }

    /// `K`.
    pub(super) fn count(&self) -> usize {
        self.weights.len()
    }

    /// `D`.
    pub(super) fn width(&self) -> usize {
        self.powers.len()
    }

    /// Whether nothing has been seen yet.
    pub(super) fn is_empty(&self) -> bool {
        self.predicted.iter().all(|&n| n == 0.0)
    }

    /// Stretches the rows to the length that these features, `[B, D]`, have on average.
    pub(super) fn rescale(&mut self, features: &[f32]) {
        let mean_length = |rows: &[f32]| {
            let length =
                |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let rows = rows.chunks_exact(self.width());
            let count = rows.len() as f64;
            rows.map(length).sum::<f64>() / count
        };
        let [long, short] = [features, &self.rows].map(mean_length);
        if short > 0.0 {
            self.scale = (long / short) as f32;
        }
    }

    /// Counts an image with features `z`, given `ln p*` and `ζ` (Eq. 4).
    pub(super) fn add(&mut self, z: &[f32], log_p: &[f64], zeta: f64) {
        let mut total = 0.0;
        let sums = self.sums.chunks_exact_mut(z.len());
        for (at, (sums, log_p)) in sums.zip(log_p).enumerate() {
            let p = log_p.exp();
            let w = (zeta * p) as f32;
            self.predicted[at] += p as f32;
            self.weights[at] += w;
            self.squares[at] += w * w;
            total += f64::from(w);
            sums.iter_mut().zip(z).for_each(|(sum, z)| *sum += w * z);
        }
        for (power, z) in self.powers.iter_mut().zip(z) {
            *power += (total * f64::from(*z) * f64::from(*z)) as f32;
        }
    }

    /// The model of the images so far.
    pub(super) fn model(&self) -> Model {
        let (d, kappa) = (self.width(), self.kappa);
        let mut spread_out: Vec<f64> = self.powers.iter().map(|&v| f64::from(v)).collect();
        let mut freedom = 0.0;
        let mut model = Model {
            means: Vec::with_capacity(self.sums.len()),
            precision: Vec::new(),
            prior: Vec::with_capacity(self.count()),
            spread: Vec::with_capacity(self.count()),
        };
        let rows = self.sums.chunks_exact(d).zip(self.rows.chunks_exact(d));
        for (at, (sums, row)) in rows.enumerate() {
            let n = f64::from(self.weights[at]);
            if n > 0.0 {
                freedom += n - f64::from(self.squares[at]) / n;
                let taken = sums.iter().map(|&u| f64::from(u).powi(2) / n);
                spread_out.iter_mut().zip(taken).for_each(|(v, taken)| *v -= taken);
            }
            let anchor = |c: &f32| kappa * f64::from(self.scale) * f64::from(*c);
            let mean = |(u, c): (&f32, &f32)| (anchor(c) + f64::from(*u)) / (kappa + n);
            model.means.extend(sums.iter().zip(row).map(mean));
            let predicted = kappa + f64::from(self.predicted[at]);
            model.prior.push((kappa + n).ln() - 2.0 * predicted.ln());
            model.spread.push(1.0 + 1.0 / (kappa + n));
        }
        // A rounded sum of squares may fall below zero, where the first variance is all that is known.
        let all = kappa + freedom.max(0.0);
        let precision = |v: &f64| all / (kappa * FIRST_VARIANCE + v.max(0.0));
        model.precision = spread_out.iter().map(precision).collect();
        model
    }

    pub(super) fn save(&self) -> Result<State> {
        let (k, d) = (self.count(), self.width());
        let cpu = Device::cpu();
        let mut state = State::default();
        for (name, values, shape) in [
            ("weights", &self.weights, vec![k]),
            ("predicted", &self.predicted, vec![k]),
            ("squares", &self.squares, vec![k]),
            ("sums", &self.sums, vec![k, d]),
            ("powers", &self.powers, vec![d]),
            ("scale", &vec![self.scale], vec![1]),
        ] {
            state.tensors.insert(name.into(), Tensor::from_vec(values.clone(), shape, &cpu)?);
        }
        Ok(state)
    }

    /// Takes a state of [`Classes::save`] over; numbers that no stream gives are refused.
    pub(super) fn load(&mut self, state: &State) -> Result<()> {
        let (k, d) = (self.count(), self.width());
        let take = |name: &str, shape: &[usize], least: f32| {
            let tensor = state.tensor(name)?;
            let refuse = |expected, found| Err(Error::State { expected, found });
            if tensor.shape() != shape {
                let expected = format!("{name:?} of shape {shape:?}");
                return refuse(expected, format!("{:?}", tensor.shape()));
            }
            let values = tensor.to_vec()?;
            let fits = |x: &&f32| x.is_finite() && **x >= least;
            match values.iter().find(|x| !fits(x)) {
                Some(x) => {
                    refuse(format!("finite numbers of at least {least} in {name:?}"), x.to_string())
                }
                None => Ok(values),
            }
        };
        let next = Self {
            rows: self.rows.clone(),
            kappa: self.kappa,
            scale: take("scale", &[1], 0.0)?[0],
            weights: take("weights", &[k], 0.0)?,
            predicted: take("predicted", &[k], 0.0)?,
            squares: take("squares", &[k], 0.0)?,
            sums: take("sums", &[k, d], f32::MIN)?,
            powers: take("powers", &[d], 0.0)?,
        };
        *self = next;
        Ok(())
    }
}

impl Model {
    /// `ln q̂` and `ln q̄` of features `z` (Eq. 2).
    pub(super) fn posteriors(&self, z: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let d = z.len();
        let distance = |mean: &[f64]| {
            let terms = z.iter().zip(mean).zip(&self.precision);
            terms.map(|((z, m), p)| (f64::from(*z) - m).powi(2) * p).sum::<f64>()
        };
        let distances: Vec<f64> = self.means.chunks_exact(d).map(distance).collect();
        let plain = self.prior.iter().zip(&distances).map(|(prior, x)| prior - 0.5 * x);
        let unsure = self.prior.iter().zip(&distances).zip(&self.spread);
        let unsure = unsure.map(|((prior, x), h)| prior - 0.5 * (d as f64 * h.ln() + x / h));
        (log_softmax(plain), log_softmax(unsure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Classes {
        Classes::new(vec![1.0, 0.0, 0.0, 1.0], 2, 3.0)
    }

    #[test]
    fn before_any_image_it_is_the_nearest_row_with_unit_variance() {
        let model = two().model();
        assert_eq!((model.precision.clone(), model.spread[0]), (vec![1.0; 2], 1.0 + 1.0 / 3.0));
        // Distances 0 and 2: q = 1 / (1 + e^-1) for the first class.
        let (plain, _) = model.posteriors(&[1.0, 0.0]);
        assert!((plain[0].exp() - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn sums_of_three_images_by_hand() {
        let mut classes = two();
        let certain = [0.0, f64::NEG_INFINITY];
        for z in [[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]] {
            classes.add(&z, &certain, 1.0);
        }
        let model = classes.model();
        // n = 3, U = (6, 9), Σ z² = (14, 33), Q = 3: m = (9/6, 9/6), R = (2, 6), ν = 3 - 1.
        assert_eq!(model.means[..2], [1.5, 1.5]);
        assert_eq!(model.means[2..], [0.0, 1.0]);
        for (precision, v) in model.precision.iter().zip([5.0 / 5.0, 9.0 / 5.0]) {
            assert!((precision - 1.0 / v).abs() < 1e-6);
        }
        // π ∝ κ/κ̂²: 6/36 against 3/9.
        assert!((model.prior[1] - model.prior[0] - 2_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn rows_are_stretched_to_the_length_of_the_features() {
        let mut classes = two();
        classes.rescale(&[3.0, 4.0, 0.0, 15.0]);
        assert_eq!(classes.scale, 10.0);
        assert_eq!(classes.model().means, [10.0, 0.0, 0.0, 10.0]);
    }

    #[test]
    fn a_state_that_no_stream_gives_is_refused() {
        let classes = two();
        for (name, spoilt) in [("weights", -1.0), ("sums", f32::NAN), ("powers", f32::INFINITY)] {
            let mut state = classes.save().unwrap();
            let tensor = state.tensors.get_mut(name).unwrap();
            let mut values = tensor.to_vec().unwrap();
            values[0] = spoilt;
            *tensor = Tensor::from_vec(values, tensor.shape(), &Device::cpu()).unwrap();
            let message = two().load(&state).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
        let mut state = classes.save().unwrap();
        state.tensors.insert("sums".into(), Tensor::zeros([2, 3], &Device::cpu()).unwrap());
        assert!(two().load(&state).unwrap_err().to_string().contains("[2, 2]"));
    }
}
