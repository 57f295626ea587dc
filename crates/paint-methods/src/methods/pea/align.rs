//! Both passes of PEA as hooks after the blocks: how far each block is from the source, and the alignment.

use std::cell::RefCell;

use paint_nn::backbone::AfterBlock;
use paint_tensor::Tensor;

use super::running::{Block, Running};
use super::{Compared, Config};
use crate::eigen;
use crate::statistics::activations::{Moments, rows, unrowed};

/// A weight below this leaves a block alone.
const NOTHING: f64 = 1e-3;

/// What the source gives after a block.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) mean: Vec<f64>,
    variances: Vec<f64>,
    /// `Σ_s^½`, block by block of the groups: the first row, the rows, and the root, row by row.
    roots: Vec<(usize, usize, Vec<f64>)>,
}

impl Source {
    pub(super) fn new(moments: &Moments, config: &Config) -> Self {
        let c = moments.mean.len();
        let mut covariance = moments.covariance.clone();
        covariance.iter_mut().step_by(c + 1).for_each(|variance| *variance += config.ridge);
        let root = |first: usize| {
            let size = config.group_size.min(c - first);
            let part = part(&covariance, c, first, size);
            (first, size, eigen::symmetric(part, size).function(|x| x.max(0.0).sqrt()))
        };
        let roots = (0..c).step_by(config.group_size).map(root).collect();
        let variances = moments.variances().collect();
        Self { mean: moments.mean.clone(), variances, roots }
    }

    /// `C`.
    pub(super) fn width(&self) -> usize {
        self.mean.len()
    }

    /// `‖μ_s - μ‖ + ‖var_s - var‖` (Eq. 1).
    fn distance(&self, sums: &Sums) -> f64 {
        let n = sums.count.max(1.0);
        let mean = || sums.sum.iter().map(|x| x / n);
        let bessel = n / (n - 1.0).max(1.0);
        let variances =
            sums.squares.iter().zip(mean()).map(|(q, m)| (q / n - m * m).max(0.0) * bessel);
        let length = |a: &[f64], b: Vec<f64>| {
            a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
        };
        length(&self.mean, mean().collect()) + length(&self.variances, variances.collect())
    }
}

/// Rows `first..first + size` and the same columns of a `[c, c]` matrix.
fn part(matrix: &[f64], c: usize, first: usize, size: usize) -> Vec<f64> {
    let rows = matrix.chunks_exact(c).skip(first).take(size);
    rows.flat_map(|row| &row[first..first + size]).copied().collect()
}

#[derive(Debug)]
struct Sums {
    sum: Vec<f64>,
    squares: Vec<f64>,
    count: f64,
}

/// The first pass: sums of what the blocks give for the views as they are.
#[derive(Debug)]
pub(super) struct Survey {
    blocks: RefCell<Vec<Sums>>,
    compared: Compared,
}

impl Survey {
    pub(super) fn new(compared: Compared) -> Self {
        Self { blocks: RefCell::default(), compared }
    }

    /// The weight of each block: its distance, between the least and the largest of all.
    pub(super) fn weights(&self, sources: &[Source]) -> Vec<f64> {
        let blocks = self.blocks.borrow();
        let far: Vec<f64> =
            sources.iter().zip(blocks.iter()).map(|(source, sums)| source.distance(sums)).collect();
        let least = far.iter().copied().fold(f64::INFINITY, f64::min);
        let most = far.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let share = |d: &f64| if most > least { (d - least) / (most - least) } else { 0.0 };
        far.iter().map(share).collect()
    }
}

impl AfterBlock for Survey {
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> paint_nn::Result<Tensor> {
        let only_cls = self.compared == Compared::Cls && prefix > 0;
        let seen = if only_cls { tokens.slice(1, 0, 1)? } else { tokens.clone() };
        let seen = rows(&seen)?;
        let [n, _] = seen.dims2("rows")?;
        let wide = |tensor: Tensor| -> paint_nn::Result<Vec<f64>> {
            Ok(tensor.to_vec()?.into_iter().map(f64::from).collect())
        };
        let (sum, squares) = (wide(seen.sum(0)?)?, wide(seen.mul(&seen)?.sum(0)?)?);
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() <= index {
            blocks.push(Sums {
                sum: vec![0.0; sum.len()],
                squares: vec![0.0; sum.len()],
                count: 0.0,
            });
        }
        if let Some(sums) = blocks.get_mut(index) {
            sums.sum.iter_mut().zip(sum).for_each(|(a, b)| *a += b);
            sums.squares.iter_mut().zip(squares).for_each(|(a, b)| *a += b);
            sums.count += n as f64;
        }
        Ok(tokens)
    }
}

/// The second pass: what blocks give is moved to the source's mean and covariance.
#[derive(Debug)]
pub(super) struct Aligner<'a> {
    pub(super) sources: &'a [Source],
    pub(super) config: &'a Config,
    pub(super) weights: &'a [f64],
    pub(super) running: RefCell<&'a mut Running>,
    /// Whether the statistics follow.
    pub(super) learns: bool,
}

impl AfterBlock for Aligner<'_> {
    fn after_block(
        &self,
        index: usize,
        _prefix: usize,
        tokens: Tensor,
    ) -> paint_nn::Result<Tensor> {
        let (Some(source), Some(&w)) = (self.sources.get(index), self.weights.get(index)) else {
            return Ok(tokens);
        };
        if w < NOTHING {
            return Ok(tokens);
        }
        let seen = rows(&tokens)?;
        if self.learns {
            let batch = Moments::of(&seen)?;
            self.running.borrow_mut().observe(index, &batch, self.config);
        }
        let running = self.running.borrow();
        let Some(block) = running.block(index) else { return Ok(tokens) };
        let c = source.width();
        let (matrix, added) = map(source, block, w, self.config.ridge);
        let device = tokens.device();
        let mean = Tensor::from_vec(block.mean.to_vec(), [1, c], device)?;
        let matrix = Tensor::from_vec(matrix, [c, c], device)?;
        let added = Tensor::from_vec(added, [c], device)?;
        unrowed(&seen.sub(&mean)?.linear(&matrix, Some(&added))?, &tokens)
    }
}

/// `F + w (Y - F)` with `Y = (F - μ_t) Σ_t^(-½) Σ_s^½ + μ_s` (Eq. 3 and 4), as a matrix and an offset for `F - μ_t`:
/// `Aᵀ` with `A = I + w (Σ_t^(-½) Σ_s^½ - I)`, and `μ_t + w (μ_s - μ_t)`.
fn map(source: &Source, block: &Block, w: f64, least: f64) -> (Vec<f32>, Vec<f32>) {
    let c = source.width();
    let covariance: Vec<f64> = block.covariance.iter().map(|&x| f64::from(x)).collect();
    let mut matrix = vec![0.0_f32; c * c];
    for (first, size, root) in &source.roots {
        let (first, size) = (*first, *size);
        let inverse = eigen::symmetric(part(&covariance, c, first, size), size)
            .function(|x| 1.0 / x.max(least).sqrt());
        for (at, product) in eigen::product(&inverse, root, size).into_iter().enumerate() {
            let (i, j) = (at / size, at % size);
            let unit = f64::from(u8::from(i == j));
            matrix[(first + j) * c + first + i] = (unit + w * (product - unit)) as f32;
        }
    }
    let added = block.mean.iter().zip(&source.mean).map(|(t, s)| {
        let t = f64::from(*t);
        (t + w * (s - t)) as f32
    });
    (matrix, added.collect())
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn moments(mean: [f64; 2], covariance: [f64; 4]) -> Moments {
        Moments { rows: 100.0, mean: mean.to_vec(), covariance: covariance.to_vec() }
    }

    /// Rows through the map of a stream with these moments to a source with those.
    fn moved(target: &Moments, source: &Moments, w: f64, group_size: usize) -> Moments {
        let config = Config { ridge: 1e-9, group_size, ..Config::default() };
        let data = [[1.0, 2.0], [3.0, -1.0], [0.0, 0.5], [-2.0, 4.0], [2.5, 3.0]].concat();
        let rows = Tensor::from_vec(data, [5, 2], &Device::cpu()).unwrap();
        let of_rows = Moments::of(&rows).unwrap();
        let mut running = Running::new(1);
        running.observe(0, if target.rows > 0.0 { target } else { &of_rows }, &config);
        let sources = [Source::new(source, &config)];
        let aligner = Aligner {
            sources: &sources,
            config: &config,
            weights: &[w],
            running: RefCell::new(&mut running),
            learns: false,
        };
        let tokens = rows.reshape([1, 5, 2]).unwrap();
        let out = aligner.after_block(0, 1, tokens).unwrap().reshape([5, 2]).unwrap();
        Moments::of(&out).unwrap()
    }

    fn near(a: &Moments, mean: &[f64], covariance: &[f64]) {
        let pairs = a.mean.iter().zip(mean).chain(a.covariance.iter().zip(covariance));
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-4, "{a} and {b}"));
    }

    #[test]
    fn rows_take_the_mean_and_covariance_of_the_source_when_the_weight_is_one() {
        let own = Moments { rows: 0.0, ..moments([0.0; 2], [0.0; 4]) };
        let source = moments([5.0, -3.0], [2.0, 0.7, 0.7, 1.5]);
        near(&moved(&own, &source, 1.0, 2), &source.mean, &source.covariance);
        // Channel by channel only the variances are.
        let alone = moved(&own, &source, 1.0, 1);
        assert!(
            (alone.covariance[0] - 2.0).abs() < 1e-4 && (alone.covariance[3] - 1.5).abs() < 1e-4
        );
        assert!((alone.covariance[1] - 0.7).abs() > 0.1);
    }

    #[test]
    fn half_the_weight_moves_the_mean_half_the_way() {
        let target = moments([1.0, 1.0], [1.0, 0.0, 0.0, 1.0]);
        let source = moments([3.0, 1.0], [1.0, 0.0, 0.0, 1.0]);
        let before = moved(&target, &target, 1.0, 2);
        let after = moved(&target, &source, 0.5, 2);
        near(&after, &[before.mean[0] + 1.0, before.mean[1]], &before.covariance);
    }

    #[test]
    fn the_block_farthest_from_the_source_has_weight_one_and_the_nearest_none() {
        let config = Config::default();
        let sources = [0.0, 4.0, 1.0]
            .map(|mean| Source::new(&moments([mean, 0.0], [0.0, 0.0, 0.0, 0.0]), &config));
        let survey = Survey::new(Compared::Cls);
        for index in 0..3 {
            survey
                .after_block(index, 1, Tensor::zeros([2, 3, 2], &Device::cpu()).unwrap())
                .unwrap();
        }
        assert_eq!(survey.weights(&sources), [0.0, 1.0, 0.25]);
        assert_eq!(survey.weights(&sources[..1]), [0.0]);
    }
}
