//! The gradient form: a copy of the network whose first blocks learn from every batch (Eq. 11 and 12).

use std::sync::Arc;

use paint_nn::backbone::{AfterBlock, Backbone, Request};
use paint_nn::optim::{Group, Optimizer};
use paint_nn::params::Trainable;
use paint_nn::state::State;
use paint_tensor::{Gradients, Tensor};

use super::NAME;
use super::config::Config;
use super::statistic_loss::Targets;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::draws::MixDraws;
use crate::learner::Learner;
use crate::methods::paint::{
    self, Mix, MutualInformation, OptimizerKind, Preset, PseudoLabels, Quirks,
};
use crate::statistics::SourceStatistics;

/// The network that learns, and what it learns from.
#[derive(Clone)]
pub(super) struct Gradient {
    learner: Learner,
    classes: Option<Vec<usize>>,
    targets: Targets,
    draws: Arc<dyn MixDraws>,
    /// PAINT's losses, with its defaults but for their weights.
    losses: paint::Config,
    statistic_weight: f32,
    pull: f32,
}

impl Gradient {
    pub(super) fn new(
        args: &BuildArgs<'_>,
        config: &Config,
        statistics: &SourceStatistics,
    ) -> Result<Self> {
        let trained = Trainable::Blocks(0..config.trained_blocks);
        let group = Group { select: trained.clone(), lr: config.lr as f32 };
        let optimizer = Optimizer::new(OptimizerKind::AdamPerBatch.rule(), vec![group]);
        let learner = Learner::new(NAME, args, trained, optimizer)?;
        Ok(Self {
            targets: Targets::new(statistics, &learner.device())?,
            learner,
            classes: args.classes.map(<[usize]>::to_vec),
            draws: args.draws().mixing,
            losses: paint::Config {
                entropy_weight: config.information_weight,
                diversity_weight: config.information_weight,
                beta: config.consistency_weight,
                ..paint::Config::preset(Preset::PaperAdam)
            },
            statistic_weight: config.statistic_weight as f32,
            pull: config.pull as f32,
        })
    }

    /// `[B, C]` logits of the network as it is.
    pub(super) fn logits(&self, embedding: &Tensor) -> Result<Tensor> {
        self.forward(embedding, None)
    }

    fn forward(&self, embedding: &Tensor, hook: Option<&dyn AfterBlock>) -> Result<Tensor> {
        let request =
            Request { classes: self.classes.as_deref(), after_block: hook, ..Request::default() };
        Ok(self.learner.model().forward_embedded(embedding, &request)?.logits)
    }

    /// One step on a batch, given as the embedding `[B, N, D]` that blocks do not change. Returns the losses by name.
    /// After an error the caller restores a clone.
    pub(super) fn tune(&mut self, embedding: &Tensor) -> Result<Vec<(&'static str, f64)>> {
        self.learner.track();
        let mut scalars = Vec::new();
        let (mut gradients, pseudo) = self.whole_batch(embedding, &mut scalars)?;
        if self.losses.beta > 0.0 && !pseudo.confident.is_empty() {
            let mixed = self.mixed(embedding, &pseudo, &mut scalars)?;
            gradients.accumulate(mixed)?;
        }
        self.learner.update(&gradients)?;
        let pull = self.pull;
        self.learner.replace(|_, value, source| Ok(value.lerp(source, pull)?))?;
        self.learner.finish()?;
        Ok(scalars)
    }

    /// The gradients of `L_mi + w L_stat`, and the pseudo labels of the batch.
    fn whole_batch(
        &self,
        embedding: &Tensor,
        scalars: &mut Vec<(&'static str, f64)>,
    ) -> Result<(Gradients, PseudoLabels)> {
        let collector = (self.statistic_weight > 0.0).then(|| self.targets.collector());
        let z = self.forward(embedding, collector.as_ref().map(|c| c as &dyn AfterBlock))?;
        let quirks = Quirks::of(&self.losses);
        let evidence = PseudoLabels::evidence(&z.detach())?.to_vec()?;
        let pseudo = PseudoLabels::of(&evidence, z.shape()[0], self.losses.phi, quirks);
        let l_mi = MutualInformation::new(&self.losses);
        let mut loss = None;
        if l_mi.counts(z.shape()[0]) {
            let (entropy, diversity) = l_mi.terms(&z)?;
            let total = l_mi.total(&entropy, &diversity)?;
            scalars.push(("loss_information", self.finite("L_mi", &total)?));
            loss = Some(total);
        }
        if let Some(collector) = collector {
            let l_stat = collector.loss()?;
            scalars.push(("loss_statistic", self.finite("the statistic loss", &l_stat)?));
            let weighted = l_stat.scale(self.statistic_weight)?;
            loss = Some(loss.map_or(Ok(weighted.clone()), |loss| loss.add(&weighted))?);
        }
        // The logits keep the activations of the pass alive.
        drop(z);
        Ok((loss.map(|loss| loss.backward()).transpose()?.unwrap_or_default(), pseudo))
    }

    /// The gradients of `β L_ic`.
    fn mixed(
        &self,
        embedding: &Tensor,
        pseudo: &PseudoLabels,
        scalars: &mut Vec<(&'static str, f64)>,
    ) -> Result<Gradients> {
        let (alpha, beta) = (self.losses.alpha, self.losses.beta as f32);
        let mix = Mix::draw(pseudo, self.draws.as_ref(), self.learner.step(), alpha);
        let z = self.forward(&mix.blend(&embedding.gather(&pseudo.confident)?)?, None)?;
        let l_ic = Quirks::of(&self.losses).consistency(&z, mix.labels(), embedding.shape()[0])?;
        drop(z);
        scalars.push(("loss_consistency", self.finite("L_ic", &l_ic)?));
        Ok(l_ic.scale(beta)?.backward()?)
    }

    fn finite(&self, what: &'static str, loss: &Tensor) -> Result<f64> {
        Ok(f64::from(self.learner.finite(what, loss.item()?)?))
    }

    pub(super) fn reset(&mut self) {
        self.learner.restart();
    }

    pub(super) fn save(&self) -> State {
        self.learner.save()
    }

    /// What [`Gradient::save`] gave.
    pub(super) fn load(&mut self, state: &State) -> Result<()> {
        self.learner.restart();
        self.learner.load(state)
    }

    /// The names of what trains.
    pub(super) fn trainable(&self) -> Vec<String> {
        self.learner.model().params().names(self.learner.trained())
    }

    pub(super) fn model(&self) -> &dyn Backbone {
        self.learner.model()
    }
}
