//! The query features of a batch, read once and used by every selection made for it.

use paint_tensor::Tensor;

use crate::error::{Error, Result};

/// `q_i` of a batch: unit vectors for the cosines, and the mean of the features as they are.
#[derive(Debug, Clone)]
pub struct Queries {
    width: usize,
    units: Vec<f32>,
    mean: Vec<f32>,
    likeness: Option<f32>,
}

impl Queries {
    /// Reads `[B, D]` features. An empty batch and values that are not finite are refused.
    pub fn new(features: &Tensor) -> Result<Self> {
        let [b, d] = features.dims2("queries")?;
        let rows = features.to_vec()?;
        if rows.is_empty() {
            return Err(Error::Shape {
                what: "queries".into(),
                expected: vec![1, d.max(1)],
                got: vec![b, d],
            });
        }
        if rows.iter().any(|q| !q.is_finite()) {
            return Err(Error::NotFinite { what: "queries" });
        }
        let column = |k: usize| rows.iter().skip(k).step_by(d).map(|&q| f64::from(q)).sum::<f64>();
        let mean: Vec<f32> = (0..d).map(|k| (column(k) / b as f64) as f32).collect();
        let likeness = likeness(&rows, &mean);
        Ok(Self { width: d, units: rows.chunks(d).flat_map(unit).collect(), mean, likeness })
    }

    /// `B`.
    pub fn len(&self) -> usize {
        self.units.len() / self.width
    }

    /// Always false: an empty batch is refused.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// `q̄ = (1/B) Σ q_i`.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// What `r_s` is for a prompt of the batch's own domain: the mean cosine of each `q_i` with the mean of the others.
    /// None for a single image.
    pub fn likeness(&self) -> Option<f32> {
        self.likeness
    }

    pub(super) fn units(&self) -> impl Iterator<Item = &[f32]> {
        self.units.chunks(self.width)
    }

    pub(super) fn expect_width(&self, width: usize) -> Result<()> {
        if self.width == width {
            return Ok(());
        }
        Err(Error::Shape {
            what: "queries".into(),
            expected: vec![self.len(), width],
            got: vec![self.len(), self.width],
        })
    }
}

fn likeness(rows: &[f32], mean: &[f32]) -> Option<f32> {
    let b = rows.len() / mean.len();
    let cosine_with_others = |row: &[f32]| {
        let others: Vec<f32> = row.iter().zip(mean).map(|(q, m)| b as f32 * m - q).collect();
        f64::from(cosine(&unit(row), &unit(&others)))
    };
    let sum = || rows.chunks(mean.len()).map(cosine_with_others).sum::<f64>();
    (b > 1).then(|| (sum() / b as f64) as f32)
}

/// `x · rsqrt(max(Σ x², 1e-12))`.
pub(super) fn unit(x: &[f32]) -> Vec<f32> {
    let square: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = (1.0 / square.max(1e-12).sqrt()) as f32;
    x.iter().map(|x| x * scale).collect()
}

/// The cosine of two unit vectors.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}
