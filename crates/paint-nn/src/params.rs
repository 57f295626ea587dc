//! A model's parameters: ordered, named, each with its role.
//!
//! Tensors are immutable and shared, so a snapshot is a list of handles and a duplicate of a model costs no memory
//! until one of the two is updated. What gradients reach is decided here ([`Params::track`]) and nowhere else.

mod selection;

pub use selection::{Part, Role, Slot, Trainable};

use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

use paint_rng::Fnv;
use paint_tensor::{Device, Gradients, Tensor};

use crate::error::{Error, Result};

/// The place of a parameter in its [`Params`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParamId(usize);

/// One parameter.
#[derive(Debug, Clone)]
pub struct Param {
    name: Arc<str>,
    role: Role,
    tensor: Tensor,
}

impl Param {
    /// Its name, timm's where timm has one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is in the model.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Its value.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// The values of all parameters at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Vec<Tensor>);

/// The parameters of a model, in the order the model declares them.
#[derive(Debug, Clone, Default)]
pub struct Params {
    entries: Vec<Param>,
    by_name: Arc<BTreeMap<Arc<str>, ParamId>>,
}

impl Params {
    /// Adds a parameter; a name can be given once.
    pub fn insert(
        &mut self,
        name: impl Into<Arc<str>>,
        role: Role,
        tensor: Tensor,
    ) -> Result<ParamId> {
        let name = name.into();
        let id = ParamId(self.entries.len());
        if self.by_name.contains_key(&name) {
            return Err(Error::Argument {
                what: "parameter name",
                expected: "a new name".into(),
                got: name.to_string(),
            });
        }
        Arc::make_mut(&mut self.by_name).insert(name.clone(), id);
        self.entries.push(Param { name, role, tensor });
        Ok(id)
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The device they are on; the CPU if there are none.
    pub fn device(&self) -> Device {
        self.iter().next().map_or_else(Device::cpu, |param| param.tensor().device().clone())
    }

    /// All parameters, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Param> {
        self.entries.iter()
    }

    /// The parameter at a place.
    pub fn param(&self, id: ParamId) -> &Param {
        &self.entries[id.0]
    }

    /// The place of a name.
    pub fn id(&self, name: &str) -> Result<ParamId> {
        self.by_name.get(name).copied().ok_or_else(|| Error::Argument {
            what: "parameter name",
            expected: format!("one of {} known names", self.len()),
            got: name.to_owned(),
        })
    }

    /// The places a choice covers, in order.
    pub fn select(&self, choice: &Trainable) -> Vec<ParamId> {
        (0..self.len()).map(ParamId).filter(|id| choice.covers(self.param(*id).role)).collect()
    }

    /// The names a choice covers, in order.
    pub fn names(&self, choice: &Trainable) -> Vec<String> {
        self.select(choice).into_iter().map(|id| self.param(id).name.to_string()).collect()
    }

    /// How many numbers a choice covers.
    pub fn elem_count(&self, choice: &Trainable) -> usize {
        self.select(choice).into_iter().map(|id| self[id].elem_count()).sum()
    }

    /// Lets gradients reach what `choice` covers, and nothing else.
    pub fn track(&mut self, choice: &Trainable) {
        for param in &mut self.entries {
            if choice.covers(param.role) {
                param.tensor = param.tensor.variable();
            } else if param.tensor.requires_grad() {
                param.tensor = param.tensor.detach();
            }
        }
    }

    /// Lets gradients reach nothing: a forward keeps no activations.
    pub fn freeze(&mut self) {
        self.track(&Trainable::Any(vec![]));
    }

    /// Replaces a value by one of the same shape; what was tracked stays tracked.
    pub fn set(&mut self, id: ParamId, value: &Tensor) -> Result<()> {
        let param = &mut self.entries[id.0];
        if param.tensor.shape() != value.shape() {
            return Err(Error::Shape {
                what: param.name.to_string(),
                expected: param.tensor.shape().to_vec(),
                got: value.shape().to_vec(),
            });
        }
        param.tensor = if param.tensor.requires_grad() { value.variable() } else { value.detach() };
        Ok(())
    }

    /// The gradients that reached these parameters, by place.
    pub fn gradients(&self, gradients: &Gradients) -> Vec<(ParamId, Tensor)> {
        let of = |(i, param): (usize, &Param)| {
            Some((ParamId(i), gradients.get(&param.tensor)?.detach()))
        };
        self.entries.iter().enumerate().filter_map(of).collect()
    }

    /// All values as they are now. Costs no memory until a value is replaced.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.entries.iter().map(|param| param.tensor.detach()).collect())
    }

    /// Brings the values of a snapshot back; what is tracked stays tracked.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.0.len() != self.len() {
            return Err(Error::Argument {
                what: "snapshot",
                expected: format!("{} parameters", self.len()),
                got: snapshot.0.len().to_string(),
            });
        }
        (0..self.len()).try_for_each(|i| self.set(ParamId(i), &snapshot.0[i]))
    }

    /// A hash over names, shapes and every bit of what `choice` covers.
    pub fn fingerprint(&self, choice: &Trainable) -> Result<u64> {
        let mut hash = Fnv::default();
        for id in self.select(choice) {
            let param = self.param(id);
            param.name.bytes().for_each(|byte| hash.feed(byte));
            param.tensor.shape().iter().for_each(|&size| hash.feed(size as u32));
            param.tensor.to_vec()?.into_iter().for_each(|value| hash.feed(value.to_bits()));
        }
        Ok(hash.0)
    }
}

impl Index<ParamId> for Params {
    type Output = Tensor;

    fn index(&self, id: ParamId) -> &Tensor {
        &self.entries[id.0].tensor
    }
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn two() -> Params {
        let device = Device::cpu();
        let mut params = Params::default();
        let norm = Role::FinalNorm(Slot::Weight);
        params.insert("norm.weight", norm, Tensor::full([2], 1.0, &device).unwrap()).unwrap();
        params
            .insert("cls_token", Role::ClsToken, Tensor::zeros([1, 1, 2], &device).unwrap())
            .unwrap();
        params
    }

    #[test]
    fn restoring_a_snapshot_brings_every_bit_back() {
        let mut params = two();
        let before = params.fingerprint(&Trainable::All).unwrap();
        let snapshot = params.snapshot();
        let id = params.id("norm.weight").unwrap();
        params.set(id, &Tensor::full([2], 1.5, &Device::cpu()).unwrap()).unwrap();
        assert_ne!(params.fingerprint(&Trainable::All).unwrap(), before);
        params.restore(&snapshot).unwrap();
        assert_eq!(params.fingerprint(&Trainable::All).unwrap(), before);
    }

    #[test]
    fn a_fingerprint_sees_only_what_is_asked_for() {
        let mut params = two();
        let norms = params.fingerprint(&Trainable::NormAffine).unwrap();
        let id = params.id("cls_token").unwrap();
        params.set(id, &Tensor::full([1, 1, 2], 3.0, &Device::cpu()).unwrap()).unwrap();
        assert_eq!(params.fingerprint(&Trainable::NormAffine).unwrap(), norms);
    }

    #[test]
    fn tracking_reaches_the_chosen_and_survives_a_new_value() {
        let mut params = two();
        params.track(&Trainable::NormAffine);
        let (norm, cls) = (params.id("norm.weight").unwrap(), params.id("cls_token").unwrap());
        params.set(norm, &Tensor::full([2], 2.0, &Device::cpu()).unwrap()).unwrap();
        assert!(params[norm].requires_grad());
        assert!(!params[cls].requires_grad());
        params.freeze();
        assert!(!params[norm].requires_grad());
    }

    #[test]
    fn a_value_of_another_shape_is_refused_by_name() {
        let mut params = two();
        let id = params.id("norm.weight").unwrap();
        let error = params.set(id, &Tensor::zeros([3], &Device::cpu()).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "norm.weight: expected shape [2], got [3]");
    }

    #[test]
    fn a_name_can_be_given_once() {
        let mut params = two();
        assert!(
            params
                .insert("cls_token", Role::ClsToken, Tensor::zeros([1], &Device::cpu()).unwrap())
                .is_err()
        );
    }
}
