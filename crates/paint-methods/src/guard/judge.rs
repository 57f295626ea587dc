//! What speaks against an adapted model on a batch, beside the frozen one.

use std::sync::Arc;

use paint_nn::backbone::{Backbone, Features, Request};
use paint_tensor::Tensor;

use super::config::Config;
use super::estimate::{BELIEVED, Noise};
use super::signals::View;
use crate::build_args::BuildArgs;
use crate::method::Method;
use crate::report::Reason;
use crate::stream::prior::Correlation;
use crate::{Result, images};

/// Fewer images than this tell nothing of a model.
pub(super) const FEW: usize = 8;
/// How much of the images that are not of the frozen model's most frequent class the most frequent one may gain, and
/// what must stay of the entropy of the mean.
const TOP_GAIN: f64 = 0.5;
const ENTROPY_LEFT: f64 = 0.7;
/// How much of the running gain a step replaces.
const RATE: f64 = 0.3;

/// The frozen model, and when an adapted one may differ from it.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) frozen: Arc<dyn Backbone>,
    pub(super) classes: Option<Vec<usize>>,
    pub(super) config: Config,
    /// Whether the method corrects for runs of one class itself.
    pub(super) is_own: bool,
    /// Whether its confidence may outgrow its accuracy, so that its gain counts in part.
    pub(super) is_discounted: bool,
    /// Whether the classifier is its own, so that no gain is believed.
    pub(super) has_own_classifier: bool,
    /// Of the frozen model's predictions.
    pub(super) runs: Correlation,
    /// The running gain in estimated accuracy over the steps that were learnt.
    pub(super) gain: f64,
}

/// Logits, and how many rows are the frozen model's.
type Protected = (Tensor, usize);

impl Judge {
    pub(super) fn new(args: &BuildArgs<'_>, config: Config, method: &dyn Method) -> Self {
        let classes = args.classes.map(<[usize]>::to_vec);
        let runs = Correlation::new(args.num_classes());
        Self {
            frozen: args.frozen_model().into(),
            classes,
            config,
            is_own: method.corrects_for_classes(),
            is_discounted: !method.corrects_for_classes() || !method.trainable().is_empty(),
            has_own_classifier: method.has_own_classifier(),
            runs,
            gain: 0.0,
        }
    }

    /// What the frozen model says of images.
    pub(super) fn source(&self, images: &Tensor) -> Result<Features> {
        let request = Request { classes: self.classes.as_deref(), ..Request::default() };
        Ok(self.frozen.forward(images, &request)?)
    }

    /// What says that the adapted model is broken. `gains` says whether its estimated accuracy is the greater one.
    pub(super) fn harm(
        &self,
        [frozen, adapted]: [&View; 2],
        gains: bool,
        b: usize,
    ) -> Option<Reason> {
        if self.is_own {
            return None;
        }
        let phi = frozen.differs(adapted, self.config.sure);
        if !gains && phi.is_some_and(|phi| phi > self.config.broken) {
            return Some(Reason::Differs);
        }
        let collapses = b >= FEW
            && adapted.top > frozen.top + TOP_GAIN * (1.0 - frozen.top)
            && adapted.entropy < ENTROPY_LEFT * frozen.entropy;
        collapses.then_some(Reason::Collapse)
    }

    /// The estimated accuracies of both models, where the batch can tell.
    pub(super) fn estimate(
        &self,
        features: &Features,
        [frozen, adapted]: [&View; 2],
    ) -> Result<Option<[f64; 2]>> {
        let [b, c] = features.logits.dims2("logits")?;
        if b < FEW || frozen.top > self.config.one_class {
            return Ok(None);
        }
        let noise = Noise::new(&*self.frozen, &features.pooled, self.classes.as_deref())?;
        let in_runs = self.in_runs(false);
        let most = if in_runs {
            frozen.variety.max(f64::MIN_POSITIVE)
        } else {
            (c.min(b).max(2) as f64).ln()
        };
        // A method that corrects for runs of one class is right to see fewer classes.
        let variety = if self.is_own && in_runs { frozen.variety } else { adapted.variety };
        let Some(noise) = noise else { return Ok(None) };
        let source = frozen.accuracy(&noise, frozen.variety / most, 1.0)?;
        let strength = adapted.sharpness(frozen);
        let seeming = adapted.accuracy(&noise, variety / most, strength)? - source;
        let gain = if self.is_discounted { BELIEVED * seeming } else { seeming };
        let changed = frozen.changed(adapted);
        Ok(Some(if self.has_own_classifier {
            [source, source + BELIEVED * seeming.clamp(-changed, 0.0)]
        } else {
            reconciled(source, gain, changed)
        }))
    }

    /// Whether the last steps gained enough, by the greater measure where there is `doubt`.
    pub(super) fn has_gain(&self, doubt: bool) -> bool {
        let enough = if doubt { self.config.gain } else { self.config.least_gain };
        self.is_own || self.gain >= enough
    }

    /// Follows the gain of a step that was learnt.
    pub(super) fn follow(&mut self, estimate: Option<[f64; 2]>) {
        if let Some([frozen, adapted]) = estimate {
            self.gain += RATE * (adapted - frozen - self.gain);
        }
    }

    /// Whether classes come in runs, or are few and the adapted model gains nothing by its estimate.
    pub(super) fn in_runs(&self, gains: bool) -> bool {
        self.runs.holds() || !gains && self.runs.is_concentrated()
    }

    /// The adapted model's logits, with the frozen one's where those stand, and how many do.
    pub(super) fn protected(
        &self,
        [(frozen, ours), (adapted, theirs)]: [(&Tensor, &View); 2],
        in_runs: bool,
    ) -> Result<Protected> {
        let Config { sure, sure_in_runs, differ, .. } = self.config;
        let [b, c] = frozen.dims2("logits")?;
        if self.is_own {
            return Ok((adapted.clone(), 0));
        }
        if ours.differs(theirs, sure).is_some_and(|phi| phi > differ) {
            return Ok((frozen.clone(), b));
        }
        let sure = if in_runs { sure_in_runs } else { sure };
        let stands = ours.contradicted(theirs, sure);
        let count = stands.iter().filter(|stands| **stands).count();
        if count == 0 {
            return Ok((adapted.clone(), 0));
        }
        let (source, mut rows) = (frozen.to_vec()?, adapted.to_vec()?);
        let pairs = rows.chunks_exact_mut(c).zip(source.chunks_exact(c)).zip(stands);
        pairs.filter(|(_, stands)| *stands).for_each(|((row, frozen), _)| {
            row.copy_from_slice(frozen);
        });
        Ok((Tensor::from_vec(rows, [b, c], adapted.device())?, count))
    }

    /// The adapted model's logits of images without a step, or the frozen one's where that is not trusted, gains too
    /// little by its estimate, or something speaks against it.
    pub(super) fn answer(
        &self,
        images: &Tensor,
        is_trusted: bool,
        adapted: impl Fn(&Features) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let b = images::check(images, self.frozen.spec())?;
        let features = self.source(&images.detach())?;
        if !is_trusted || !self.has_gain(true) {
            return Ok(features.logits);
        }
        let adapted = adapted(&features)?;
        let (source, view) = (View::new(&features.logits)?, View::new(&adapted)?);
        if !view.is_finite() || self.harm([&source, &view], false, b).is_some() {
            return Ok(features.logits);
        }
        if self.is_own {
            return Ok(adapted);
        }
        let estimate = self.estimate(&features, [&source, &view])?;
        if estimate.is_some_and(|[frozen, adapted]| adapted - frozen < self.config.gain) {
            return Ok(features.logits);
        }
        let both = [(&features.logits, &source), (&adapted, &view)];
        Ok(self.protected(both, self.in_runs(false))?.0)
    }
}

/// Both models' estimates: the gain is at most the share of images whose class `changed`, and where it seems larger,
/// the frozen model's estimate follows the adapted one's.
fn reconciled(source: f64, gain: f64, changed: f64) -> [f64; 2] {
    let adapted = source + gain;
    [adapted - gain.clamp(-changed, changed), adapted]
}

#[cfg(test)]
mod tests {
    use super::reconciled;

    #[test]
    fn a_gain_beyond_what_changed_lifts_the_frozen_estimate() {
        assert_eq!(reconciled(0.5, 0.25, 0.5), [0.5, 0.75]);
        assert_eq!(reconciled(0.5, 0.25, 0.125), [0.625, 0.75]);
        assert_eq!(reconciled(0.5, -0.25, 0.125), [0.375, 0.25]);
    }
}
