//! What speaks against an adapted model on a batch, beside the frozen one.

use std::sync::Arc;

use paint_nn::backbone::{Backbone, Features, Request};
use paint_tensor::Tensor;

use super::config::Config;
use super::signals::View;
use crate::build_args::BuildArgs;
use crate::report::Reason;
use crate::{Result, images};

/// Fewer images than this tell nothing of a model.
pub(super) const FEW: usize = 8;
/// How much of the images that are not of the frozen model's most frequent class the most frequent one may gain, and what
/// must stay of the entropy of the mean.
const TOP_GAIN: f64 = 0.5;
const ENTROPY_LEFT: f64 = 0.7;
/// The largest `φ` of a method that corrects for runs of one class, and so changes sure predictions too.
const OWN_DIFFER: f64 = 0.5;

/// The frozen model, and when an adapted one may differ from it.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) frozen: Arc<dyn Backbone>,
    pub(super) classes: Option<Vec<usize>>,
    pub(super) config: Config,
    /// Whether the method corrects for runs of one class itself.
    pub(super) is_own: bool,
}

impl Judge {
    pub(super) fn new(args: &BuildArgs<'_>, config: Config, is_own: bool) -> Self {
        let classes = args.classes.map(<[usize]>::to_vec);
        Self { frozen: args.frozen_model().into(), classes, config, is_own }
    }

    /// What the frozen model says of images.
    pub(super) fn source(&self, images: &Tensor) -> Result<Features> {
        let request = Request { classes: self.classes.as_deref(), ..Request::default() };
        Ok(self.frozen.forward(images, &request)?)
    }

    /// What speaks against the adapted model on a batch.
    pub(super) fn harm(&self, frozen: &View, adapted: &View, b: usize) -> Option<Reason> {
        let most = if self.is_own { OWN_DIFFER } else { self.config.differ };
        if frozen.differs(adapted, self.config.sure).is_some_and(|phi| phi > most) {
            return Some(Reason::Differs);
        }
        let collapses = b >= FEW
            && !self.is_own
            && adapted.top > frozen.top + TOP_GAIN * (1.0 - frozen.top)
            && adapted.entropy < ENTROPY_LEFT * frozen.entropy;
        collapses.then_some(Reason::Collapse)
    }

    /// The share of images changed where the frozen model is sure; none where the method is free to change them.
    pub(super) fn changed(&self, frozen: &View, adapted: &View) -> f64 {
        if self.is_own { 0.0 } else { frozen.changed(adapted, self.config.sure) }
    }

    /// The adapted model's logits, or the frozen one's where that is not trusted or something speaks against them.
    pub(super) fn answer(
        &self,
        images: &Tensor,
        is_trusted: bool,
        adapted: impl Fn() -> Result<Tensor>,
    ) -> Result<Tensor> {
        let b = images::check(images, self.frozen.spec())?;
        let frozen = self.source(&images.detach())?.logits;
        if !is_trusted {
            return Ok(frozen);
        }
        let adapted = adapted()?;
        let view = View::new(&adapted)?;
        let source = View::new(&frozen)?;
        let is_harm = !view.is_finite()
            || self.harm(&source, &view, b).is_some()
            || self.changed(&source, &view) > self.config.changed;
        Ok(if is_harm { frozen } else { adapted })
    }
}
