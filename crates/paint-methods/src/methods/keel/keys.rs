//! What tells the domains of images apart (Eq. 7), on its way from the device to the memory.

use paint_tensor::{Fetch, Tensor};

use crate::statistics::standardised;

/// `W`: a batch of fewer images makes a new domain only when as many past ones speak for it together.
pub(super) const WINDOW: usize = 16;

/// The keys of a batch, standardised by those of clean images.
#[derive(Debug)]
pub(super) struct Keys {
    /// `B`.
    pub(super) images: usize,
    /// Their mean.
    pub(super) mean: Vec<f32>,
    /// The sum over the images of their mean squared distance to it.
    pub(super) apart: f64,
    /// One row an image, where they are fewer than [`WINDOW`].
    pub(super) rows: Vec<Vec<f32>>,
    /// `n_s`, the clean images that they are standardised by.
    pub(super) clean_images: u64,
}

/// Keys on their way to the host: two rows, or all of them where they are few.
pub(super) struct ComingKeys {
    images: usize,
    rows: Tensor,
    coming: Option<Fetch>,
    clean_images: u64,
}

impl ComingKeys {
    /// Of `[B, 4 D]` styles, with mean and deviation of those of `clean_images`.
    pub(super) fn begin(
        styles: &Tensor,
        clean: &[Tensor; 2],
        clean_images: u64,
    ) -> paint_nn::Result<Self> {
        let keys = standardised(styles, clean)?;
        let [images, width] = keys.dims2("keys")?;
        let rows = if images < WINDOW {
            keys
        } else {
            let moments = keys.reshape([1, images, width])?.token_moments(0)?;
            Tensor::concat(&moments.each_ref(), 0)?
        };
        Ok(Self { images, coming: rows.fetch()?, rows, clean_images })
    }

    /// Whether the host would have to wait for them.
    pub(super) fn are_coming(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| !coming.is_here())
    }

    /// Waits for them.
    pub(super) fn finish(self) -> paint_nn::Result<Keys> {
        let Self { images, rows, coming, clean_images } = self;
        let numbers = coming.map_or_else(|| rows.to_vec(), Fetch::finish)?;
        let width = rows.elem_count() / if images < WINDOW { images } else { 2 };
        if images < WINDOW {
            let rows = numbers.chunks_exact(width).map(<[f32]>::to_vec).collect();
            return Ok(Keys::of(rows, clean_images));
        }
        let (mean, variance) = numbers.split_at(width);
        let spread = variance.iter().copied().map(f64::from).sum::<f64>() / width as f64;
        let (mean, apart) = (mean.to_vec(), images as f64 * spread);
        Ok(Keys { images, mean, apart, rows: Vec::new(), clean_images })
    }
}

impl Keys {
    pub(super) fn of(rows: Vec<Vec<f32>>, clean_images: u64) -> Self {
        let mean = mean(&rows);
        let apart = apart(&rows, &mean);
        Self { images: rows.len(), mean, apart, rows, clean_images }
    }
}

/// The sum over rows of their mean squared distance to one.
pub(super) fn apart(rows: &[Vec<f32>], centre: &[f32]) -> f64 {
    rows.iter().map(|row| mean_square(row, Some(centre))).sum()
}

/// Mean of rows.
pub(super) fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let mut sum = vec![0.0_f64; rows.first().map_or(0, Vec::len)];
    rows.iter().for_each(|row| sum.iter_mut().zip(row).for_each(|(s, x)| *s += f64::from(*x)));
    sum.iter().map(|s| (s / rows.len() as f64) as f32).collect()
}

/// The mean square of a difference, or of a vector, in sixteen partial sums that need not wait for one another.
pub(super) fn mean_square(a: &[f32], b: Option<&[f32]>) -> f64 {
    const LANES: usize = 16;
    let mut sums = [0.0_f64; LANES];
    for (at, a) in a.chunks(LANES).enumerate() {
        let b = b.map(|b| &b[at * LANES..][..a.len()]);
        for (lane, (sum, x)) in sums.iter_mut().zip(a).enumerate() {
            *sum += (f64::from(*x) - b.map_or(0.0, |b| f64::from(b[lane]))).powi(2);
        }
    }
    sums.iter().sum::<f64>() / a.len() as f64
}
