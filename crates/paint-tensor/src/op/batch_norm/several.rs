//! Several batches side by side, each with its own statistics.
//!
//! A channel of a batch is put together from the moments of its rows, which stand in memory as channels of their own:
//! `μ_b` is the mean of their means, `v_b` the mean of their variances plus the variance of their means.

use super::{After, BatchNorm, Then};
use crate::{Result, Tensor};

impl Tensor {
    /// The norm of batches of `rows`; `split` is that of the whole input.
    pub(super) fn normalised_by_batch(
        &self,
        norm: &BatchNorm<'_>,
        rows: usize,
        then: Then<'_>,
        split: [usize; 3],
    ) -> Result<Self> {
        let [all, c, inner] = split;
        let residual = match then {
            Then::Nothing => None,
            Then::Relu(residual) => residual,
        };
        for operand in [Some(self), Some(norm.scale), Some(norm.shift), residual] {
            operand.map_or(Ok(()), |x| x.refuse_gradient("batch_norm of several batches"))?;
        }
        let (backend, device) = (self.device().backend(), self.device());
        let by_row = [1, all * c, inner];
        let (mean, variance) = backend.channel_moments(self.storage(), by_row)?;
        let of_rows = |storage| {
            Self::frozen(vec![all * c], storage, device.clone()).reshape([all / rows, rows, c])
        };
        let (mean, variance) = (of_rows(mean)?, of_rows(variance)?);
        let of_batch = mean.mean(1)?; // [batches, C]
        let apart = mean.sub(&of_batch.reshape([all / rows, 1, c])?)?;
        let variance = variance.add(&apart.mul(&apart)?)?.mean(1)?;
        let mixed = |running: &Self, batch: Self| match norm.mode.share() {
            share if share < 1.0 => running.broadcast_to(batch.shape())?.lerp(&batch, share),
            _ => Ok(batch),
        };
        let mean = mixed(norm.running_mean, of_batch)?;
        let std = mixed(norm.running_var, variance)?.add_scalar(norm.eps)?.sqrt()?;
        let scale = norm.scale.div(&std)?;
        let shift = norm.shift.sub(&mean.mul(&scale)?)?;
        let for_rows = |x: &Self| {
            x.reshape([all / rows, 1, c])?.broadcast_to([all / rows, rows, c])?.reshape([all * c])
        };
        let (scale, shift) = (for_rows(&scale)?, for_rows(&shift)?);
        let after = match then {
            Then::Nothing => After::Nothing,
            Then::Relu(residual) => After::Relu(residual.map(Self::storage)),
        };
        let coefficients = [scale.storage(), shift.storage()];
        let out = backend.channel_affine(self.storage(), coefficients, after, by_row)?;
        Ok(Self::frozen(self.shape().to_vec(), out, device.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchNorm, BnMode};
    use crate::{Device, Tensor};

    fn wave(phase: f32, shape: &[usize]) -> Tensor {
        let wave = (0..shape.iter().product()).map(|i| (i as f32 * 1.7 + phase).sin()).collect();
        Tensor::from_vec(wave, shape, &Device::cpu()).unwrap()
    }

    /// Runs `x` and a residual through a norm with a ReLU.
    fn run(x: &Tensor, mode: BnMode, batch_size: Option<usize>) -> crate::Result<Tensor> {
        let norm = BatchNorm {
            scale: &wave(0.2, &[3]),
            shift: &wave(0.3, &[3]),
            running_mean: &wave(0.4, &[3]),
            // Far above the batch's, which must not suffer from it where they count alone.
            running_var: &wave(0.5, &[3]).add_scalar(1e6)?,
            eps: 1e-5,
            mode,
            batch_size,
        };
        Ok(x.batch_norm_relu(&norm, Some(&x.scale(0.5)?))?.0)
    }

    #[test]
    fn each_batch_is_normalised_as_if_alone() {
        let x = wave(0.1, &[6, 3, 4, 5]);
        for mode in [BnMode::Running, BnMode::Batch, BnMode::Mixed { batch: 0.3 }] {
            for rows in [1, 2, 3, 6] {
                let together = run(&x, mode, Some(rows)).unwrap().to_vec().unwrap();
                let alone = (0..6).step_by(rows).flat_map(|first| {
                    run(&x.slice(0, first, rows).unwrap(), mode, None).unwrap().to_vec().unwrap()
                });
                let pairs: Vec<_> = together.iter().zip(alone).collect();
                assert_eq!(pairs.len(), together.len());
                for (together, alone) in pairs {
                    // Numbers of up to 4, from sums of 60 numbers in another order.
                    assert!((together - alone).abs() < 1e-5, "{mode:?} {rows}: {together} {alone}");
                }
            }
        }
    }

    #[test]
    fn half_a_batch_and_gradients_are_refused() {
        let x = wave(0.1, &[6, 3, 4, 5]);
        for rows in [0, 4, 12] {
            let error = run(&x, BnMode::Batch, Some(rows)).unwrap_err().to_string();
            assert!(error.contains(&format!("multiple of {rows} rows")), "{error}");
        }
        let error = run(&x.variable(), BnMode::Batch, Some(3)).unwrap_err().to_string();
        assert!(error.contains("several batches"), "{error}");
        assert!(run(&x.variable(), BnMode::Batch, Some(6)).is_ok(), "one batch");
    }
}
