//! The classifier of a network, for methods that put something before it or read its rows.

use paint_nn::backbone::Backbone;
use paint_nn::backbone::vit::HeadKind;
use paint_nn::params::{Role, Slot};
use paint_tensor::Tensor;

use crate::{Error, Result};

/// The linear classifier of the classes that compete, as it is before the first batch.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// `[C, D]`.
    pub(crate) weight: Tensor,
    /// `[C]`.
    pub(crate) bias: Tensor,
}

impl Head {
    /// The classifier of `model`. A network without a linear one of its feature width is an error of `method`.
    pub(crate) fn of(
        method: &'static str,
        model: &dyn Backbone,
        classes: Option<&[usize]>,
    ) -> Result<Self> {
        if !is_linear(model) {
            let name = &model.spec().name;
            let why = format!(
                "it needs one linear classifier, and {name} averages two or compares with text features"
            );
            return Err(Error::Config { method, why });
        }
        let value = |slot| {
            parameter(model, slot, classes)?.ok_or_else(|| {
                let why = format!("{} has no linear classifier", model.spec().name);
                Error::Config { method, why }
            })
        };
        let head = Self { weight: value(Slot::Weight)?, bias: value(Slot::Bias)? };
        let [_, width] = head.weight.dims2("classifier")?;
        let expected = model.spec().feature_dim;
        if width != expected {
            let why =
                format!("the classifier reads {width} channels, the features have {expected}");
            return Err(Error::Config { method, why });
        }
        Ok(head)
    }

    /// `[B, D]` → `[B, C]`.
    pub(crate) fn logits(&self, features: &Tensor) -> Result<Tensor> {
        Ok(features.linear(&self.weight, Some(&self.bias))?)
    }
}

/// Whether logits are one linear map of features.
fn is_linear(model: &dyn Backbone) -> bool {
    model.vit_config().is_none_or(|vit| vit.variant.head == HeadKind::Linear)
}

/// The weight or bias of a network's linear classifier, of the classes that compete; none if it has no such classifier.
pub(crate) fn parameter(
    model: &dyn Backbone,
    slot: Slot,
    classes: Option<&[usize]>,
) -> Result<Option<Tensor>> {
    if !is_linear(model) {
        return Ok(None);
    }
    let param = model.params().iter().find(|param| param.role() == Role::Head(slot));
    let Some(value) = param.map(|param| param.tensor().detach()) else { return Ok(None) };
    Ok(Some(classes.map_or_else(|| Ok(value.clone()), |rows| value.gather(rows))?))
}
