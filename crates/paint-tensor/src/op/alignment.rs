//! Rows brought towards given moments, channel by channel, as far as evidence goes.
//!
//! Letters: `m, q` running mean and mean square of a channel, which first move by the share `ρ` towards those of the
//! rows; `μ, c` mean and variance to be reached; `n, n_s` the rows that the two means come from. With
//! `v = (n (q - m²) + n_v c) / (n + n_v)`, `a = (c / v)^½`, at most `a_max`, and `w` of [`evidence`] over all channels,
//!
//! `x ← x + w ((a - 1) x + μ - a m)`.
//!
//! All of it happens on the device: a host that read the moments would keep a GPU waiting.

use crate::{Result, Tensor};

/// The least variance of a channel.
pub(crate) const LEAST: f64 = 1e-8;

/// How rows are brought towards moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alignment {
    /// `ρ`; at 0 the running moments stay as they are.
    pub share: f32,
    /// `n`.
    pub rows: f32,
    /// `n_s`.
    pub target_rows: f32,
    /// `n_v`, the rows that the variance to be reached counts for beside that of the rows.
    pub shrinkage: f32,
    /// `a_max`.
    pub stretch: f32,
}

/// What [`Tensor::aligned`] gives.
#[derive(Debug, Clone)]
pub struct Aligned {
    /// The rows, shaped as before.
    pub rows: Tensor,
    /// `m` and `q` with their share of these rows, `[2, D]`.
    pub running: Tensor,
    /// `w`, `[1]`.
    pub weight: Tensor,
}

/// `w = max(0, 1 - e / d)`: the share of a shift that evidence supports, by the positive-part rule of James and Stein.
/// `d` is the mean over the channels of the squared shift in variances, `e = 1/n + 1/n_s` what chance makes of it.
pub fn evidence(d: f64, n: f64, n_s: f64) -> f64 {
    let e = 1.0 / n + 1.0 / n_s;
    if d <= e { 0.0 } else { 1.0 - e / d }
}

impl Tensor {
    /// Rows `[.., D]` brought towards the moments `[μ, c]` of `target`, `[2, D]`. `running` is `[m, q]`, `[2, D]`;
    /// without it they are those of the rows. It has no gradient rule.
    pub fn aligned(
        &self,
        running: Option<&Self>,
        target: &Self,
        by: &Alignment,
    ) -> Result<Aligned> {
        let d = self.shape().last().copied().unwrap_or(0);
        if d == 0 || self.elem_count() == 0 {
            return Err(self.shape_error("aligned rows", "rows of numbers".to_owned()));
        }
        self.refuse_gradient("aligned")?;
        for moments in [Some(target), running].into_iter().flatten() {
            moments.refuse_gradient("aligned")?;
            if moments.shape() != [2, d] {
                return Err(moments.shape_error("moments of aligned rows", format!("[2, {d}]")));
            }
            self.device().check_same(moments.device(), "aligned")?;
        }
        let device = self.device();
        let (running, share) = match running {
            Some(running) => (running.clone(), by.share),
            None => (Self::zeros([2, d], device)?, 1.0),
        };
        let by = Alignment { share, ..*by };
        let moments = [running.storage(), target.storage()];
        let [rows, running, weight] = device.backend().align(self.storage(), moments, &by)?;
        let made = |shape, storage| Self::frozen(shape, storage, device.clone());
        Ok(Aligned {
            rows: made(self.shape().to_vec(), rows),
            running: made(vec![2, d], running),
            weight: made(vec![1], weight),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    const BY: Alignment =
        Alignment { share: 0.25, rows: 1e6, target_rows: 1e6, shrinkage: 0.0, stretch: 10.0 };

    fn tensor(data: &[f32], shape: [usize; 2]) -> Tensor {
        Tensor::from_vec(data.to_vec(), shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn with_much_evidence_rows_have_the_moments_of_the_target() {
        let rows = tensor(&[1.0, 10.0, 3.0, 14.0, 5.0, 30.0], [3, 2]);
        let target = tensor(&[-4.0, 2.0, 0.25, 9.0], [2, 2]);
        let Aligned { rows, running, weight } = rows.aligned(None, &target, &BY).unwrap();
        let rows = rows.to_vec().unwrap();
        for (channel, (mean, variance)) in [(-4.0, 0.25), (2.0, 9.0)].into_iter().enumerate() {
            let of = || rows.iter().skip(channel).step_by(2);
            let found = of().sum::<f32>() / 3.0;
            let spread = of().map(|x| (x - found).powi(2)).sum::<f32>() / 3.0;
            assert!((found - mean).abs() < 1e-3, "{found}");
            assert!((spread / variance - 1.0).abs() < 1e-3, "{spread}");
        }
        assert_eq!(running.to_vec().unwrap(), [3.0, 18.0, 35.0 / 3.0, 1196.0 / 3.0]);
        assert!(weight.to_vec().unwrap()[0] > 0.999);
    }

    #[test]
    fn running_moments_follow_by_their_share_and_stay_where_it_is_zero() {
        let (rows, target) = (tensor(&[2.0, 4.0], [2, 1]), tensor(&[0.0, 1.0], [2, 1]));
        let running = tensor(&[1.0, 2.0], [2, 1]);
        let moments = |share| {
            let by = Alignment { share, ..BY };
            rows.aligned(Some(&running), &target, &by).unwrap().running.to_vec().unwrap()
        };
        assert_eq!(moments(0.25), [1.5, 4.0]); // 3 and 10 are those of the rows
        assert_eq!(moments(0.0), [1.0, 2.0]);
    }

    #[test]
    fn a_shift_that_chance_explains_moves_nothing_and_a_large_one_almost_all_the_way() {
        assert_eq!(evidence(0.01, 50.0, 1000.0), 0.0);
        assert!(evidence(9.0, 50.0, 1000.0) > 0.99);
        assert!(evidence(9.0, 1.0, 1000.0) < 0.9);
        let (rows, target) = (tensor(&[0.9, -1.1], [2, 1]), tensor(&[0.0, 1.0], [2, 1]));
        let by = Alignment { rows: 2.0, ..BY };
        assert_eq!(rows.aligned(None, &target, &by).unwrap().rows.to_vec().unwrap(), [0.9, -1.1]);
    }

    #[test]
    fn moments_of_another_width_no_rows_and_gradients_are_refused() {
        let (rows, target) = (tensor(&[1.0; 6], [3, 2]), tensor(&[1.0; 6], [2, 3]));
        let message = rows.aligned(None, &target, &BY).unwrap_err().to_string();
        assert!(message.contains("[2, 2]"), "{message}");
        let target = tensor(&[1.0; 4], [2, 2]);
        assert!(rows.aligned(None, &target, &BY).is_ok());
        assert!(rows.variable().aligned(None, &target, &BY).is_err());
        assert!(rows.aligned(None, &target.variable(), &BY).is_err());
        let empty = tensor(&[], [2, 0]);
        assert!(tensor(&[], [3, 0]).aligned(None, &empty, &BY).is_err());
        assert!(rows.sum_all().unwrap().aligned(None, &empty, &BY).is_err());
    }
}
