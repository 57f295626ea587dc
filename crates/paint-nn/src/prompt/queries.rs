//! The query features of a batch, read once and used by every selection made for it.

use paint_tensor::Tensor;

use crate::error::{Error, Result};

/// `q_i` of a batch as they are, as unit vectors for the cosines, and their mean.
#[derive(Debug, Clone)]
pub struct Queries {
    width: usize,
    rows: Vec<f32>,
    units: Vec<f32>,
    mean: Vec<f32>,
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
        let mut sums = vec![0.0_f64; d];
        for row in rows.chunks_exact(d) {
            sums.iter_mut().zip(row).for_each(|(sum, &q)| *sum += f64::from(q));
        }
        let mean: Vec<f32> = sums.iter().map(|sum| (sum / b as f64) as f32).collect();
        let mut units = Vec::with_capacity(rows.len());
        for row in rows.chunks_exact(d) {
            let factor = unit_factor(row);
            units.extend(row.iter().map(|x| x * factor));
        }
        Ok(Self { width: d, units, rows, mean })
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

    pub(super) fn units(&self) -> impl Iterator<Item = &[f32]> {
        self.units.chunks(self.width)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.rows.chunks(self.width)
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

/// `x · rsqrt(max(Σ x², 1e-12))`.
pub(super) fn unit(x: &[f32]) -> Vec<f32> {
    let factor = unit_factor(x);
    x.iter().map(|x| x * factor).collect()
}

fn unit_factor(x: &[f32]) -> f32 {
    (1.0 / dot(x, x).max(1e-12).sqrt()) as f32
}

/// The cosine of two unit vectors.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    dot(a, b) as f32
}

/// `Σ a b`, in sixteen partial sums: additions that waited for one another took most of the time between the queries
/// of a batch and its prompt, in which a GPU has nothing to do.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    const LANES: usize = 16;
    let ((a, last_a), (b, last_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    let rest = last_a.iter().zip(last_b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    sums.into_iter().chain(rest).sum()
}
