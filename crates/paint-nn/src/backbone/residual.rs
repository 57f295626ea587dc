//! Residual networks of convolutions: the part that all families share.
//!
//! A stem, blocks, global average pooling and a linear classifier. The families differ in names, sizes, norms and
//! shortcuts, which their own files spell out: [`cifar_resnet`](super::cifar_resnet), [`resnet`](super::resnet) and
//! [`wide_resnet`](super::wide_resnet).

mod assembly;
mod block;

pub(super) use assembly::{Assembly, NormKind};
pub(super) use block::{Block, Order, Shortcut};

use std::collections::BTreeMap;

use paint_tensor::{BnMode, Tensor};

use super::input::{Input, preprocess};
use super::{Backbone, BuildOptions, Family, Features, Request, Sizes, Spec, Statistics, Weights};
use crate::checkpoint::{Checkpoint, Format};
use crate::error::{Misfit, Result};
use crate::layers::{BatchNorm, ChannelNorm, Conv, Linear, NormPass};
use crate::params::{Params, Part, Role, Slot};

/// A residual network.
#[derive(Debug, Clone)]
pub struct ResidualNet {
    spec: Spec,
    params: Params,
    input: Input,
    batch_norm: BnMode,
    parts: Parts,
}

/// The layers, in forward order.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) stem: Conv,
    /// Norm and ReLU after the stem; pre-activation blocks bring their own.
    pub(super) stem_norm: Option<ChannelNorm>,
    pub(super) stem_pool: StemPool,
    /// Blocks by stage.
    pub(super) stages: Vec<Vec<Block>>,
    /// Norm and ReLU after pre-activation blocks.
    pub(super) final_norm: Option<ChannelNorm>,
    pub(super) head: Linear,
    /// `D`.
    pub(super) feature_dim: usize,
    /// `C`.
    pub(super) num_classes: usize,
}

/// What follows the stem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StemPool {
    None,
    /// The largest of 3x3 pixels, every second one (ImageNet).
    Max,
}

/// What a family's sizes say of its layers.
pub(super) trait Plan {
    /// The image size of a network with drawn weights.
    const USUAL_SIZE: [usize; 2];

    /// Builds the layers from an assembly.
    fn parts(&self, assembly: &mut Assembly) -> Result<Parts>;

    /// Entries of a checkpoint that the forward pass does not read.
    fn unused(_name: &str) -> bool {
        false
    }
}

/// Where a block stands. Stages after the first halve the image in their first block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// From 1, as in the names of files.
    pub(super) stage: usize,
    /// From 0 in its stage.
    pub(super) within: usize,
    /// From 0 in the network.
    pub(super) index: usize,
    pub(super) stride: usize,
}

impl Place {
    /// The role of a parameter of the block, by its slot.
    pub(super) fn role(self, part: Part) -> impl Fn(Slot) -> Role {
        move |slot| Role::Block { index: self.index, part, slot }
    }
}

/// The blocks of each stage, in forward order, made one after the other.
pub(super) fn stages(
    blocks: &[usize],
    mut block: impl FnMut(Place) -> Result<Block>,
) -> Result<Vec<Vec<Block>>> {
    let (mut stages, mut index) = (Vec::with_capacity(blocks.len()), 0);
    for (stage, &count) in (1..).zip(blocks) {
        let mut made = Vec::with_capacity(count);
        for within in 0..count {
            let stride = if stage > 1 && within == 0 { 2 } else { 1 };
            made.push(block(Place { stage, within, index, stride })?);
            index += 1;
        }
        stages.push(made);
    }
    Ok(stages)
}

impl ResidualNet {
    /// The network of these sizes called `name`; a checkpoint brings its own number of classes.
    pub(super) fn build<P: Plan>(
        plan: &P,
        name: &str,
        weights: Weights,
        options: &BuildOptions,
    ) -> Result<Self> {
        let preprocess = preprocess(P::USUAL_SIZE, &weights, options)?;
        let input = Input::new(&preprocess, &options.device)?;
        let mut assembly = Assembly::new(weights, options);
        let parts = plan.parts(&mut assembly)?;
        let params = assembly.finish(name, P::unused)?;
        let spec = Spec {
            name: name.to_owned(),
            image_size: preprocess.input_size,
            num_classes: parts.num_classes,
            feature_dim: parts.feature_dim,
            depth: parts.stages.iter().map(Vec::len).sum(),
            stages: parts.stages.iter().map(Vec::len).collect(),
            preprocess,
        };
        Ok(Self { spec, params, input, batch_norm: BnMode::default(), parts })
    }
}

/// The sizes of a network, from its plan.
pub(super) fn sizes<P: Plan>(plan: &P) -> Result<Sizes> {
    let mut assembly = Assembly::comparing(&Checkpoint::new(Format::SafeTensors));
    let parts = plan.parts(&mut assembly)?;
    Ok(Sizes {
        image_size: P::USUAL_SIZE,
        num_classes: parts.num_classes,
        feature_dim: parts.feature_dim,
        depth: parts.stages.iter().map(Vec::len).sum(),
        parameters: assembly.elements(),
    })
}

/// How weights differ from the network of these sizes.
pub(super) fn misfit<P: Plan>(plan: &P, weights: &Checkpoint) -> Result<Misfit> {
    let mut assembly = Assembly::comparing(weights);
    plan.parts(&mut assembly)?;
    Ok(assembly.differences(P::unused).1)
}

impl Backbone for ResidualNet {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn family(&self) -> Family {
        Family::Convolutional
    }

    fn params(&self) -> &Params {
        &self.params
    }

    fn params_mut(&mut self) -> &mut Params {
        &mut self.params
    }

    fn duplicate(&self) -> Box<dyn Backbone> {
        Box::new(self.clone())
    }

    fn set_batch_norm(&mut self, mode: BnMode) {
        self.batch_norm = mode;
    }

    fn mixes_images(&self) -> bool {
        self.batch_norm != BnMode::Running
    }

    /// Mean and standard deviation alone: every convolution may adapt.
    fn embed(&self, images: &Tensor) -> Result<Tensor> {
        self.input.normalize(images)
    }

    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features> {
        request.refuse_transformer(&self.spec.name)?;
        request.refuse_joint_statistics()?;
        let (params, parts) = (&self.params, &self.parts);
        let seen = (request.statistics == Statistics::Keep).then(Default::default);
        let pass = &NormPass { mode: self.batch_norm, batch_size: request.batch_size, seen };
        let mut x = parts.stem.forward(params, embedding)?;
        if let Some(norm) = &parts.stem_norm {
            x = norm.forward_relu(params, &x, None, pass)?;
        }
        if parts.stem_pool == StemPool::Max {
            x = x.max_pool(3, 2, 1)?;
        }
        if let Some(hook) = request.after_block {
            hook.before_blocks(0, &x)?;
        }
        for (index, block) in parts.stages.iter().flatten().enumerate() {
            x = block.forward(params, &x, pass)?;
            if let Some(hook) = request.after_block {
                x = super::seen_by(hook, index, x)?;
            }
        }
        if let Some(norm) = &parts.final_norm {
            x = norm.forward_relu(params, &x, None, pass)?;
        }
        let pooled = x.global_avg_pool()?; // [B, D]
        let logits = match request.classes {
            None => parts.head.logits(params, &pooled)?,
            Some(classes) => parts.head.forward_outputs(params, &pooled, classes)?,
        };
        let statistics = pass.seen.as_ref().map(std::cell::RefCell::take).unwrap_or_default();
        Ok(Features { pooled, logits, attention: Vec::new(), statistics })
    }

    fn running_statistics(&self) -> Vec<(String, Tensor)> {
        let parts = &self.parts;
        let ends = [&parts.stem_norm, &parts.final_norm];
        let blocks = parts.stages.iter().flatten().flat_map(Block::norms);
        let norms = ends[0].iter().chain(blocks).chain(ends[1]);
        norms.filter_map(batch_norm).flat_map(BatchNorm::running).collect()
    }

    fn set_running_statistics(&mut self, values: &BTreeMap<String, Tensor>) -> Result<()> {
        let parts = &mut self.parts;
        let blocks = parts.stages.iter_mut().flatten().flat_map(Block::norms_mut);
        for norm in parts.stem_norm.iter_mut().chain(blocks).chain(&mut parts.final_norm) {
            if let ChannelNorm::Batch(norm) = norm {
                norm.set_running(values)?;
            }
        }
        Ok(())
    }
}

fn batch_norm(norm: &ChannelNorm) -> Option<&BatchNorm> {
    match norm {
        ChannelNorm::Batch(norm) => Some(norm),
        ChannelNorm::Group(_) => None,
    }
}

#[cfg(test)]
mod tests;
