//! Building a network layer by layer, from a checkpoint or from drawn weights.
//!
//! Each layer is named once, where it is built. What a checkpoint lacks, has too many of, or has in another shape is
//! collected and refused together at the end.

use std::collections::BTreeMap;

use paint_rng::Seed;
use paint_tensor::{Conv2d, Device, Tensor};

use crate::backbone::{BuildOptions, Weights};
use crate::checkpoint::{Array, Checkpoint};
use crate::error::{Error, Misfit, Result};
use crate::layers::{BatchNorm, ChannelNorm, Conv, GroupNorm, LayerNorm, Linear};
use crate::params::{ParamId, Params, Role, Slot};

/// PyTorch's for batch and group norm.
const EPS: f32 = 1e-5;

/// A network under construction.
pub(in crate::backbone) struct Assembly {
    device: Device,
    source: Source,
    params: Params,
    misfit: Misfit,
    /// Numbers of all parameters.
    elements: usize,
    /// Of a drawn network, in place of its usual number.
    num_classes: Option<usize>,
}

enum Source {
    Draw(Seed),
    Take(BTreeMap<String, Array>),
    /// Shapes alone: nothing is built, only compared.
    Compare(BTreeMap<String, Vec<usize>>),
}

/// The norm of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backbone) enum NormKind {
    Batch,
    Group(usize),
}

impl Assembly {
    pub(in crate::backbone) fn new(weights: Weights, options: &BuildOptions) -> Self {
        let source = match weights {
            Weights::Random(seed) => Source::Draw(seed),
            Weights::Checkpoint(checkpoint) => Source::Take(checkpoint.into_iter().collect()),
        };
        let (params, misfit) = (Params::default(), Misfit::default());
        let (device, num_classes) = (options.device.clone(), options.num_classes);
        Self { device, source, params, misfit, elements: 0, num_classes }
    }

    /// One that gives nothing but the differences between the network and these weights.
    pub(in crate::backbone) fn comparing(weights: &Checkpoint) -> Self {
        let shapes = weights.iter().map(|(name, array)| (name.to_owned(), array.shape.clone()));
        Self {
            device: Device::cpu(),
            source: Source::Compare(shapes.collect()),
            params: Params::default(),
            misfit: Misfit::default(),
            elements: 0,
            num_classes: None,
        }
    }

    /// The first axis of an entry of the checkpoint.
    pub(in crate::backbone) fn rows(&self, name: &str) -> Option<usize> {
        match &self.source {
            Source::Draw(_) => None,
            Source::Take(arrays) => arrays.get(name)?.shape.first().copied(),
            Source::Compare(shapes) => shapes.get(name)?.first().copied(),
        }
    }

    /// `name.weight` `[outputs, inputs, side, side]`, padded by half a kernel.
    pub(in crate::backbone) fn conv(
        &mut self,
        name: &str,
        role: impl Fn(Slot) -> Role,
        [outputs, inputs, side]: [usize; 3],
        stride: usize,
    ) -> Result<Conv> {
        // He's initialisation, by outputs.
        let std = (2.0 / (outputs * side * side) as f64).sqrt();
        let (name, shape) = (format!("{name}.weight"), [outputs, inputs, side, side]);
        let weight = self.param(name, role(Slot::Weight), &shape, |z| std * z)?;
        Ok(Conv { weight, how: Conv2d { stride, padding: side / 2, groups: 1 } })
    }

    /// `name.weight`, `name.bias` and, for a batch norm, `name.running_mean` and `name.running_var`, each `[channels]`.
    pub(in crate::backbone) fn norm(
        &mut self,
        kind: NormKind,
        name: &str,
        role: impl Fn(Slot) -> Role,
        channels: usize,
    ) -> Result<ChannelNorm> {
        let weight = self.vector(name, role(Slot::Weight), channels, 1.0)?;
        let bias = self.vector(name, role(Slot::Bias), channels, 0.0)?;
        Ok(match kind {
            NormKind::Group(groups) => {
                ChannelNorm::Group(GroupNorm { weight, bias, groups, eps: EPS })
            }
            NormKind::Batch => ChannelNorm::Batch(BatchNorm {
                name: name.into(),
                weight,
                bias,
                running_mean: self.tensor(&format!("{name}.running_mean"), &[channels], |_| 0.0)?,
                running_var: self.tensor(&format!("{name}.running_var"), &[channels], |_| 1.0)?,
                eps: EPS,
            }),
        })
    }

    /// `name.weight` and `name.bias` of a norm over the last axis.
    pub(in crate::backbone) fn layer_norm(
        &mut self,
        name: &str,
        role: impl Fn(Slot) -> Role,
        channels: usize,
        eps: f32,
    ) -> Result<LayerNorm> {
        let weight = self.vector(name, role(Slot::Weight), channels, 1.0)?;
        let bias = self.vector(name, role(Slot::Bias), channels, 0.0)?;
        Ok(LayerNorm::at(weight, bias, eps))
    }

    /// `name.weight` `[outputs, inputs]` and `name.bias`.
    pub(in crate::backbone) fn linear(
        &mut self,
        name: &str,
        role: impl Fn(Slot) -> Role,
        shape: [usize; 2],
    ) -> Result<Linear> {
        let weight =
            self.param(format!("{name}.weight"), role(Slot::Weight), &shape, |z| 0.02 * z)?;
        let bias = self.vector(name, role(Slot::Bias), shape[0], 0.0)?;
        Ok(Linear::at(weight, bias))
    }

    /// The classifier `name.weight` `[C, inputs]` and `name.bias` `[C]`, and `C`: the checkpoint's, or else the usual
    /// one.
    pub(in crate::backbone) fn head(
        &mut self,
        name: &str,
        inputs: usize,
        usual_classes: usize,
    ) -> Result<(Linear, usize)> {
        let usual_classes = self.num_classes.unwrap_or(usual_classes);
        let classes = self.rows(&format!("{name}.weight")).unwrap_or(usual_classes);
        let std = (1.0 / inputs as f64).sqrt();
        let shape = [classes, inputs];
        let weight =
            self.param(format!("{name}.weight"), Role::Head(Slot::Weight), &shape, |z| std * z)?;
        let bias = self.vector(name, Role::Head(Slot::Bias), classes, 0.0)?;
        Ok((Linear::at(weight, bias), classes))
    }

    fn vector(&mut self, layer: &str, role: Role, len: usize, drawn: f64) -> Result<ParamId> {
        let slot = if role.slot() == Some(Slot::Weight) { "weight" } else { "bias" };
        let name = format!("{layer}.{slot}");
        self.param(name, role, &[len], |_| drawn)
    }

    /// A parameter: the entry of that name, or a drawn one.
    pub(in crate::backbone) fn param(
        &mut self,
        name: String,
        role: Role,
        shape: &[usize],
        value: impl Fn(f64) -> f64,
    ) -> Result<ParamId> {
        let tensor = self.tensor(&name, shape, value)?;
        self.elements += shape.iter().product::<usize>();
        self.params.insert(name, role, tensor)
    }

    /// How many numbers the parameters have so far.
    pub(in crate::backbone) fn elements(&self) -> usize {
        self.elements
    }

    /// The entry of that name, or a drawn one: `value` turns a normal number into an element.
    fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        value: impl Fn(f64) -> f64,
    ) -> Result<Tensor> {
        let found = match &mut self.source {
            Source::Draw(seed) => {
                let mut rng = seed.derive("residual/init", &[self.params.len() as u64]);
                let data = (0..shape.iter().product()).map(|_| value(rng.normal()) as f32);
                return Ok(Tensor::from_vec(data.collect(), shape, &self.device)?);
            }
            Source::Take(arrays) => match arrays.remove(name) {
                Some(array) if array.shape == shape => {
                    return Ok(Tensor::from_vec(array.data, shape, &self.device)?);
                }
                other => other.map(|array| array.shape),
            },
            Source::Compare(shapes) => shapes.remove(name),
        };
        match found {
            Some(found) if found == shape => {}
            Some(found) => self.misfit.misshaped.push((name.to_owned(), shape.to_vec(), found)),
            None => self.misfit.missing.push(name.to_owned()),
        }
        // A stand-in: what does not fit is refused at the end, all together, and what is compared is never run.
        Ok(Tensor::zeros([1], &self.device)?)
    }

    /// The parameters, if the checkpoint had them all and nothing else but what `unused` names.
    pub(in crate::backbone) fn finish(
        self,
        model: &str,
        unused: fn(&str) -> bool,
    ) -> Result<Params> {
        let (params, misfit) = self.differences(unused);
        if misfit.is_empty() {
            return Ok(params);
        }
        Err(Error::Weights { model: model.to_owned(), misfit })
    }

    /// The parameters, and how they differ from the checkpoint's.
    pub(in crate::backbone) fn differences(self, unused: fn(&str) -> bool) -> (Params, Misfit) {
        let left: Vec<String> = match self.source {
            Source::Draw(_) => Vec::new(),
            Source::Take(arrays) => arrays.into_keys().collect(),
            Source::Compare(shapes) => shapes.into_keys().collect(),
        };
        // A count of training batches, which no forward pass reads.
        let counter = |name: &str| name.ends_with(".num_batches_tracked");
        let extra = left.into_iter().filter(|name| !counter(name) && !unused(name)).collect();
        (self.params, Misfit { extra, ..self.misfit })
    }
}
