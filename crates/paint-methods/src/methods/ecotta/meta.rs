//! The meta networks of EcoTTA: where they are attached, what they hold, and what they make of each part's output.

use std::cell::RefCell;
use std::sync::Arc;

use paint_nn::backbone::{AfterBlock, Backbone, Request};
use paint_nn::params::{Params, Part as Layer, Role, Slot};
use paint_tensor::{BatchNorm, BnMode, Conv2d, Tensor};

use super::{Config, EntropyTrains, NAME};
use crate::attached::Attached;
use crate::draws::ProjectorDraws;
use crate::{Error, Result};

/// PyTorch's for batch norm.
const EPS: f32 = 1e-5;

/// Parameters of a meta network, in the order of their names.
const NAMES: [(&str, Layer, Slot); 5] = [
    ("norm.weight", Layer::Norm1, Slot::Weight),
    ("norm.bias", Layer::Norm1, Slot::Bias),
    ("conv.weight", Layer::Conv1, Slot::Weight),
    ("conv_norm.weight", Layer::Norm2, Slot::Weight),
    ("conv_norm.bias", Layer::Norm2, Slot::Bias),
];

/// A part of the frozen network.
#[derive(Debug)]
pub(super) struct Part {
    /// Its last block.
    last: usize,
    /// The convolution beside it, from its input to the size of its output.
    conv: Conv2d,
    /// `[O, I, k, k]`.
    shape: [usize; 4],
}

/// The number of blocks before the end of each of `k` parts: thirds of the network, of which the first are halved until
/// there are as many as asked for.
fn ends(depth: usize, k: usize) -> impl Iterator<Item = usize> {
    let sixths =
        (1..=6).filter(move |sixth: &usize| sixth.is_multiple_of(2) || sixth.div_ceil(2) + 3 <= k);
    sixths.map(move |sixth| (sixth * depth).div_ceil(6))
}

/// The parts of a network.
pub(super) fn parts(model: &dyn Backbone, config: &Config) -> Result<Arc<[Part]>> {
    let (spec, k) = (model.spec(), config.parts);
    if spec.depth < k {
        let why = format!("parts: {} has {} blocks, too few for {k} parts", spec.name, spec.depth);
        return Err(Error::Config { method: NAME, why });
    }
    let sizes = Sizes::default();
    let [h, w] = spec.image_size;
    let image = Tensor::zeros([1, 3, h, w], &model.params().device())?;
    model.forward(&image, &Request { after_block: Some(&sizes), ..Request::default() })?;
    let sizes = sizes.0.into_inner();
    let mut first = 0;
    let part = |end: usize| {
        let ([inputs, from, _], [outputs, to, _]) = (sizes[first], sizes[end]);
        first = end;
        let (side, stride) = (config.kernel, (from / to.max(1)).max(1));
        let conv = Conv2d { stride, padding: side / 2, groups: 1 };
        Part { last: end - 1, conv, shape: [outputs, inputs, side, side] }
    };
    Ok(ends(spec.depth, k).map(part).collect())
}

/// Channels, height and width of what the first block reads and of what each block gives.
#[derive(Debug, Default)]
struct Sizes(RefCell<Vec<[usize; 3]>>);

impl Sizes {
    fn note(&self, images: &Tensor) -> paint_nn::Result<()> {
        let [_, c, h, w] = images.dims4("images between blocks")?;
        self.0.borrow_mut().push([c, h, w]);
        Ok(())
    }
}

impl AfterBlock for Sizes {
    fn before_blocks(&self, _prefix: usize, images: &Tensor) -> paint_nn::Result<()> {
        self.note(images)
    }

    fn after_block(&self, _: usize, _: usize, images: Tensor) -> paint_nn::Result<Tensor> {
        self.note(&images)?;
        Ok(images)
    }
}

/// The first values: norms that only normalise, convolutions uniform within `1 / sqrt(fan in)`.
pub(super) fn first_values(
    parts: &[Part],
    draws: &dyn ProjectorDraws,
    model: &dyn Backbone,
) -> Result<Params> {
    let (mut params, device) = (Params::default(), model.params().device());
    for (index, part) in parts.iter().enumerate() {
        let [outputs, inputs, side, _] = part.shape;
        for (name, layer, slot) in NAMES {
            let value = match (layer, slot) {
                (Layer::Conv1, _) => {
                    let fan_in = inputs * side * side;
                    let bound = 1.0 / (fan_in as f32).sqrt();
                    let drawn = draws.projector(index, outputs * fan_in);
                    let drawn = drawn.into_iter().map(|u| (2.0 * u - 1.0) * bound).collect();
                    Tensor::from_vec(drawn, part.shape, &device)?
                }
                (_, Slot::Weight) => Tensor::full([outputs], 1.0, &device)?,
                (_, Slot::Bias) => Tensor::zeros([outputs], &device)?,
            };
            let role = Role::Block { index, part: layer, slot };
            params.insert(format!("{index}.{name}"), role, value)?;
        }
    }
    Ok(params)
}

/// What a forward pass with meta networks is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A prediction, with gradients for every meta network that is tracked.
    Predict,
    /// A prediction, with gradients for these, and how far each part is from the frozen one.
    Adapt(EntropyTrains),
}

/// A forward pass with meta networks.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    parts: &'a [Part],
    meta: &'a Attached,
    purpose: Purpose,
    /// What the present part reads, `x̃_{k-1}`.
    input: RefCell<Option<Tensor>>,
    apart: RefCell<Vec<Tensor>>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(parts: &'a [Part], meta: &'a Attached, purpose: Purpose) -> Self {
        Self { parts, meta, purpose, input: RefCell::default(), apart: RefCell::default() }
    }

    /// `R_k` of each part, `[]`, after a pass for [`Purpose::Adapt`].
    pub(super) fn apart(self) -> Vec<Tensor> {
        self.apart.into_inner()
    }

    /// `x̃_k` from what part `k` read and what it gave.
    fn output(&self, k: usize, read: &Tensor, given: &Tensor) -> paint_nn::Result<Tensor> {
        let [_, _, h, w] = given.dims4("images after a part")?;
        let value = |at: usize| self.meta.value(k * NAMES.len() + at);
        let beside = read.conv2d(value(2), self.parts[k].conv)?;
        // A network that leaves a last odd row out has one fewer than the convolution.
        let beside = beside.slice(2, 0, h)?.slice(3, 0, w)?;
        let beside = normalised(&beside, value(3), value(4))?.relu()?;
        Ok(normalised(given, value(0), value(1))?.add(&beside)?)
    }
}

/// Batch norm with the statistics of the batch.
fn normalised(x: &Tensor, scale: &Tensor, shift: &Tensor) -> paint_nn::Result<Tensor> {
    // There are no running statistics, and this mode reads none.
    let none = shift.detach();
    let norm = BatchNorm {
        scale,
        shift,
        running_mean: &none,
        running_var: &none,
        eps: EPS,
        mode: BnMode::Batch,
        batch_size: None,
    };
    Ok(x.batch_norm(&norm)?)
}

/// `mean |a - b|`.  → `[]`
fn mean_distance(a: &Tensor, b: &Tensor) -> paint_nn::Result<Tensor> {
    let difference = a.sub(b)?;
    Ok(difference.relu()?.add(&difference.neg()?.relu()?)?.mean_all()?)
}

impl AfterBlock for Pass<'_> {
    fn before_blocks(&self, _prefix: usize, images: &Tensor) -> paint_nn::Result<()> {
        self.input.replace(Some(images.clone()));
        Ok(())
    }

    fn after_block(&self, index: usize, _: usize, given: Tensor) -> paint_nn::Result<Tensor> {
        let Some(k) = self.parts.iter().position(|part| part.last == index) else {
            return Ok(given);
        };
        let read = self.input.take().expect("set by before_blocks and by the part before");
        let mut output = self.output(k, &read, &given)?;
        if let Purpose::Adapt(reached) = self.purpose {
            let frozen = given.detach();
            let own = if given.requires_grad() {
                self.output(k, &read.detach(), &frozen)?
            } else {
                output.clone()
            };
            self.apart.borrow_mut().push(mean_distance(&own, &frozen)?);
            if reached == EntropyTrains::Last && k + 1 < self.parts.len() {
                output = output.detach();
            }
        }
        self.input.replace(Some(output.clone()));
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::ends;

    #[test]
    fn parts_have_the_blocks_of_the_papers_table() {
        let blocks = |depth, k| {
            let ends: Vec<usize> = std::iter::once(0).chain(ends(depth, k)).collect();
            ends.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
        };
        // WideResNet-28, WideResNet-40 and ResNet-50.
        assert_eq!((blocks(12, 4), blocks(12, 5)), (vec![2, 2, 4, 4], vec![2, 2, 2, 2, 4]));
        assert_eq!((blocks(18, 4), blocks(18, 5)), (vec![3, 3, 6, 6], vec![3, 3, 3, 3, 6]));
        assert_eq!(blocks(16, 4), [3, 3, 5, 5]);
        for k in 3..=6 {
            for depth in k..40 {
                let blocks = blocks(depth, k);
                assert!(blocks.len() == k && blocks.iter().all(|&count| count > 0), "{blocks:?}");
                assert_eq!(blocks.iter().sum::<usize>(), depth);
            }
        }
    }
}
