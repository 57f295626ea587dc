//! One batch of Algorithm 1; the step numbers are those of the module above.

use std::sync::Arc;

use paint_nn::backbone::Features;
use paint_nn::optim::{Group, Optimizer};
use paint_nn::params::Trainable;
use paint_nn::prompt::{PromptMemory, Queries, Selection};
use paint_tensor::{Gradients, Tensor};

use super::config::Config;
use super::mixing::{Mix, PseudoLabels};
use super::networks::{Networks, Tuning};
use super::objective::{Losses, MutualInformation};
use super::quirks::Quirks;
use super::retrieval::Retriever;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::draws::{MixDraws, ViewDraws};
use crate::images::Check;
use crate::learner::finite;
use crate::views::{self, Padding};

/// Everything that one batch led to.
#[derive(Debug, Clone)]
pub struct Adaptation {
    /// `[B, C]`, the prediction after the update.
    pub logits: Tensor,
    /// `[B, C]`, the prediction before it.
    pub before: Tensor,
    /// The prompts that were chosen, in order: one, or one per retrieval. The last made the prediction. None without
    /// prompts.
    pub selections: Vec<Selection>,
    /// The class predicted before the update, for each sample.
    pub pseudo_labels: Vec<usize>,
    /// `S`, ascending.
    pub confident: Vec<usize>,
    /// `[|S|, C]`, the prediction of the mixed samples; none where nothing was mixed.
    pub mixed: Option<Tensor>,
    /// The terms of the objective.
    pub losses: Losses,
}

/// The method.
pub struct Paint {
    pub(super) config: Config,
    quirks: Quirks,
    l_mi: MutualInformation,
    pub(super) networks: Networks,
    pub(super) memory: PromptMemory,
    pub(super) retriever: Retriever,
    mixing: Arc<dyn MixDraws>,
    views: Arc<dyn ViewDraws>,
    /// Batches so far.
    pub(super) step: u64,
}

impl Paint {
    /// The method on a duplicate of a model. Prompts need a vision transformer; with any other network they are
    /// refused.
    pub fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let networks = Networks::new(args, &config)?;
        let width = args.model.spec().feature_dim;
        let memory = PromptMemory::new(config.memory(width), &args.model.params().device())?;
        let draws = args.draws();
        Ok(Self {
            quirks: Quirks::of(&config),
            l_mi: MutualInformation::new(&config),
            networks,
            memory,
            retriever: Retriever::new(&config, draws.prompts),
            mixing: draws.mixing,
            views: draws.views,
            step: 0,
            config,
        })
    }

    /// A copy that goes on with the prompts alone.
    pub(super) fn with_frozen_network(&self) -> Self {
        Self {
            config: Config { blocks: 0, train_cls_token: false, ..self.config.clone() },
            quirks: self.quirks,
            l_mi: self.l_mi,
            networks: self.networks.duplicate(),
            memory: self.memory.clone(),
            retriever: self.retriever.clone(),
            mixing: Arc::clone(&self.mixing),
            views: Arc::clone(&self.views),
            step: self.step,
        }
    }

    /// The settings in use.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The prompts and keys of the domains met so far.
    pub fn memory(&self) -> &PromptMemory {
        &self.memory
    }

    /// Adapts to a batch and predicts it. After an error everything is what it was before.
    pub fn adapt(&mut self, images: &Tensor) -> Result<Adaptation> {
        self.adapt_beside(images, None)
    }

    /// The same; `frozen` is what a forward pass of the source gives for the images, where that is known.
    pub(super) fn adapt_beside(
        &mut self,
        images: &Tensor,
        frozen: Option<&Features>,
    ) -> Result<Adaptation> {
        let check = Check::begin(images, self.networks.spec())?;
        // 1. Queries, `q_i` of Eq. 2; what follows changes something.
        let queried = self.networks.queries(images, frozen)?;
        let (memory, values) = (self.memory.clone(), self.networks.params_mut().snapshot());
        let done = self.tune(images, queried, check);
        self.freeze();
        if done.is_ok() {
            self.step += 1;
        } else {
            self.memory = memory;
            self.networks.params_mut().restore(&values)?;
        }
        done
    }

    fn tune(
        &mut self,
        images: &Tensor,
        (embedding, queries): (Tensor, Option<Tensor>),
        check: Check,
    ) -> Result<Adaptation> {
        self.networks.track();
        let b = check.finish()?;
        let queries = queries.map(|queries| Queries::new(&queries)).transpose()?;
        // 2. Prompt allocation (Eq. 2-5).
        let mut retrievals = self.retriever.begin(queries);
        let prompt = retrievals.allocate(&mut self.memory)?;
        // 3 and 4. Prediction (Eq. 1), pseudo labels (Eq. 7), `L_mi` (Eq. 6) and its gradients.
        self.memory.prompts_mut().track(&Trainable::Prompt);
        let Tuning { logits: before, entropy, diversity, mut gradients, evidence } =
            self.networks.tuning(&embedding, self.prompt(prompt)?, self.l_mi)?;
        let pseudo = evidence.pseudo_labels(b, self.config.phi, self.quirks)?;
        // 5. Mixing (Eq. 8), `L_ic` (Eq. 9), and the gradients of both losses together (Eq. 10).
        let prompt = retrievals.for_mixed(&mut self.memory, pseudo.confident.len())?;
        let (mut mixed, mut l_ic) = (None, None);
        if self.config.beta > 0.0 && !pseudo.confident.is_empty() {
            let mix = Mix::draw(&pseudo, self.mixing.as_ref(), self.step, self.config.alpha);
            let x = mix.blend(&self.to_mix(&pseudo.confident, images, &embedding)?)?;
            let z = self.networks.logits(&x, self.prompt(prompt)?)?;
            mixed = Some(z.detach());
            let loss = self.quirks.consistency(&z, mix.labels(), b)?;
            drop(z);
            l_ic = Some(loss.detach());
            gradients.accumulate(loss.scale(self.config.beta as f32)?.backward()?)?;
        }
        // 6. One step down `L_mi + β L_ic` (Eq. 10).
        self.update(&gradients)?;
        // 7. The key (Eq. 11).
        retrievals.update_key(&mut self.memory)?;
        // 8. The prediction that counts (Eq. 1).
        let prompt = retrievals.for_prediction(&mut self.memory)?;
        let logits = self.networks.prediction(&embedding, self.prompt(prompt)?)?;
        // Losses are read only now and with the logits, so that the host queues everything above and waits once.
        let parts = [Some(&entropy), Some(&diversity), l_ic.as_ref(), Some(&logits)];
        let parts = parts.into_iter().flatten().map(|part| part.reshape([part.elem_count()]));
        let parts: Vec<Tensor> = parts.collect::<paint_tensor::Result<_>>()?;
        let read = Tensor::concat(&parts.iter().collect::<Vec<_>>(), 0)?.to_vec()?;
        let (terms, predicted) = read.split_at(read.len() - logits.elem_count());
        let mut losses = self.l_mi.losses([terms[0], terms[1]], b, self.step)?;
        if let Some(&l_ic) = terms.get(2) {
            losses.add_consistency(l_ic, self.config.beta, self.step)?;
        }
        for &value in predicted {
            finite("a logit after the update", value, self.step)?;
        }
        let PseudoLabels { labels: pseudo_labels, confident } = pseudo;
        let selections = retrievals.selections;
        Ok(Adaptation { logits, before, selections, pseudo_labels, confident, mixed, losses })
    }

    /// A prompt of the memory, by its number.
    fn prompt(&self, id: Option<u64>) -> Result<Option<&Tensor>> {
        Ok(id.map(|id| self.memory.prompt(id)).transpose()?)
    }

    /// The embedding `[|S|, N, D]` of what is mixed: the confident samples, or augmented views of them (D8).
    fn to_mix(&self, confident: &[usize], images: &Tensor, embedding: &Tensor) -> Result<Tensor> {
        if !self.quirks.mixes_views() {
            return Ok(embedding.gather(confident)?);
        }
        let images = images.detach().gather(confident)?;
        let [_, c, h, w] = images.dims4("images")?;
        let view = self.views.view(self.step, [h, w], Padding::None);
        let noise = self.views.noise(self.step, confident, c * h * w);
        self.networks.embed(&views::apply(&[(view, noise)], &images)?)
    }

    /// The optimizer is new for every batch: neither rule keeps state between batches.
    fn update(&mut self, gradients: &Gradients) -> Result<()> {
        let groups = vec![
            Group { select: self.config.trained_with_prompts(), lr: self.config.lr_prompts as f32 },
            Group { select: self.config.trained_blocks(), lr: self.config.lr_blocks as f32 },
        ];
        let mut optimizer = Optimizer::new(self.config.optimizer.rule(), groups);
        optimizer.step(self.networks.params_mut(), gradients)?;
        optimizer.step(self.memory.prompts_mut(), gradients)?;
        self.freeze();
        Ok(())
    }

    /// Lets gradients reach nothing.
    fn freeze(&mut self) {
        self.networks.params_mut().freeze();
        self.memory.prompts_mut().freeze();
    }
}
