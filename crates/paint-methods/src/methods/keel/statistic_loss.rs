//! The statistic loss of the gradient form (Eq. 11): tokens are to have the moments that they have on clean images.

use std::cell::RefCell;

use paint_nn::backbone::AfterBlock;
use paint_nn::loss::moment_distance;
use paint_tensor::{Device, Tensor};

use crate::Result;
use crate::statistics::SourceStatistics;

/// Mean and deviation on clean images, `[D]` each.
type Moments = [Tensor; 2];

/// The clean moments of every block, where the network is.
#[derive(Debug, Clone)]
pub(super) struct Targets {
    /// Of the class token, and of the patches where the block gives any.
    blocks: Vec<(Moments, Option<Moments>)>,
}

impl Targets {
    pub(super) fn new(statistics: &SourceStatistics, device: &Device) -> Result<Self> {
        let d = statistics.width;
        let place = |mean: &[f32], var: &[f32]| -> Result<Moments> {
            let std = var.iter().map(|v| v.sqrt()).collect();
            Ok([Tensor::from_vec(mean.to_vec(), [d], device)?, Tensor::from_vec(std, [d], device)?])
        };
        let blocks = statistics.blocks.iter().map(|block| {
            let patch = block.patch.as_ref().map(|patch| place(&patch.mean, &patch.var));
            Ok((place(&block.cls_mean, &block.cls_var)?, patch.transpose()?))
        });
        Ok(Self { blocks: blocks.collect::<Result<_>>()? })
    }

    /// What collects the loss during a forward pass.
    pub(super) fn collector(&self) -> Collector<'_> {
        Collector { targets: self, terms: RefCell::default() }
    }
}

/// Looks at the tokens after each block and leaves them as they are.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    targets: &'a Targets,
    /// One term a block and kind of token.
    terms: RefCell<Vec<Tensor>>,
}

impl Collector<'_> {
    /// The mean over blocks of the class tokens' distance and the patches'.
    pub(super) fn loss(self) -> Result<Tensor> {
        let blocks = self.targets.blocks.len() as f32;
        let mut sum = Tensor::zeros([], self.targets.blocks[0].0[0].device())?;
        for term in self.terms.into_inner() {
            sum = sum.add(&term)?;
        }
        Ok(sum.scale(1.0 / blocks)?)
    }
}

impl AfterBlock for Collector<'_> {
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> paint_nn::Result<Tensor> {
        let [b, t, d] = tokens.dims3("tokens")?;
        let (cls, patches) = &self.targets.blocks[index];
        let distance = |first: usize, count: usize, [mean, std]: &Moments| {
            let rows = tokens.slice(1, first, count)?.reshape([b * count, d])?;
            moment_distance(&rows, mean, std)
        };
        let terms = &mut *self.terms.borrow_mut();
        if prefix > 0 {
            terms.push(distance(0, 1, cls)?);
        }
        if let Some(patches) = patches.as_ref().filter(|_| t > prefix) {
            terms.push(distance(prefix, t - prefix, patches)?);
        }
        Ok(tokens)
    }
}
