//! Plain forward passes of a network that does not learn, which a device may record and replay: one image keeps the
//! host busier than a GPU.

use std::fmt;

use paint_tensor::{Routine, Tensor};

use super::Vit;
use crate::backbone::{Attention, Backbone, Features, LastBlock, Pooling, Request};
use crate::error::Result;
use crate::params::Param;

/// Equal passes in a row before one is recorded. A network that learns between every few of them gains nothing by it.
const PATIENCE: u32 = 4;

/// The replays of one network. A duplicate, which may come to other weights, has its own.
pub(super) struct Plain(Routine);

impl Default for Plain {
    fn default() -> Self {
        Self(Routine::after(PATIENCE))
    }
}

impl Clone for Plain {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plain").field(&self.0.is_recorded()).finish()
    }
}

impl Plain {
    #[cfg(test)]
    pub(super) fn is_recorded(&self) -> bool {
        self.0.is_recorded()
    }

    /// The features that `model` gives for images when it is asked for nothing else.
    pub(super) fn features(&self, model: &Vit, images: &Tensor) -> Result<Features> {
        let request = Request::default();
        let compute = |images: &[Tensor]| -> Result<Vec<Tensor>> {
            let features = model.forward_embedded(&model.embed(&images[0])?, &request)?;
            Ok(vec![features.pooled, features.logits])
        };
        let weights = model.params().iter().map(Param::tensor);
        let given = self.0.run_with(&[images], weights, compute)?;
        let [pooled, logits] = [0, 1].map(|at| given[at].clone());
        Ok(Features { pooled, logits, attention: Vec::new(), statistics: Vec::new() })
    }
}

/// Whether a pass is the same every time: nothing is differentiated, and nothing but the features is asked for.
pub(super) fn is_plain(model: &Vit, images: &Tensor, request: &Request<'_>) -> bool {
    let Request {
        prompt: None,
        position: _,
        pooling: Pooling::Cls,
        patches: None,
        classes: None,
        attention: Attention::Omit,
        branches: [],
        batch_size: _,
        statistics: _,
        last_block: LastBlock::Pooled,
        after_block: None,
    } = request
    else {
        return false;
    };
    let learns = model.params().iter().any(|param| param.tensor().requires_grad());
    !images.requires_grad() && !learns
}
