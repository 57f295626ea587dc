//! One batch of Algorithm 1; the step numbers are those of the module above.

use paint_nn::loss;
use paint_nn::optim::{Group, Optimizer, Rule, Sgd};
use paint_nn::params::Trainable;
use paint_nn::prompt::{Queries, Selection};
use paint_tensor::{Gradients, Tensor};

use super::Paint;
use super::choice::{Denominator, LossForm, OptimizerKind, Retrieval};
use super::mixing::{Mix, PseudoLabels};
use super::retrieval::Retriever;
use crate::learner::finite;
use crate::{Result, images};

/// Adam's `ε`, PyTorch's default.
const ADAM_EPS: f32 = 1e-8;

/// The terms of the objective (Eq. 10).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Losses {
    /// The mean entropy of the predictions.
    pub entropy: f32,
    /// The entropy of the mean prediction.
    pub diversity: f32,
    /// `L_ic`; none where nothing was mixed.
    pub consistency: Option<f32>,
    /// The weighted sum that was minimised.
    pub total: f32,
}

/// All that happened to one batch.
#[derive(Debug, Clone)]
pub struct Adaptation {
    /// `[B, C]`, the prediction after the update.
    pub logits: Tensor,
    /// `[B, C]`, the prediction before it.
    pub before: Tensor,
    /// The prompts that were chosen: one, or one for each retrieval. None without prompts.
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

impl Paint {
    /// Adapts to a batch and predicts it. On an error everything is as it was before.
    pub fn adapt(&mut self, images: &Tensor) -> Result<Adaptation> {
        images::check(images, self.source.spec())?;
        let (memory, values) = (self.memory.clone(), self.model.params().snapshot());
        let done = self.tune(images);
        self.model.params_mut().freeze();
        self.memory.prompts_mut().freeze();
        if done.is_ok() {
            self.step += 1;
        } else {
            self.memory = memory;
            self.model.params_mut().restore(&values)?;
        }
        done
    }

    fn tune(&mut self, images: &Tensor) -> Result<Adaptation> {
        // 1. Queries, `q_i` of Eq. 2.
        let (embedding, queries) = self.queries(images)?;
        let b = queries.len();
        // 2. Prompt allocation (Eq. 2-5).
        let mut selections = Vec::new();
        let prompt = self.allocate(&queries, b, &mut selections)?;
        let trained = self.trained();
        self.model.params_mut().track(&trained);
        self.memory.prompts_mut().track(&Trainable::Prompt);
        // 3 and 4. Prediction (Eq. 1), L_mi (Eq. 6), pseudo labels (Eq. 7).
        let (before, mut losses, mut gradients) = self.mutual_information(&embedding, prompt)?;
        let pseudo = PseudoLabels::read(&before, &self.config)?;
        // 5. Mixing (Eq. 8), L_ic (Eq. 9), and the gradients of both losses together (Eq. 10).
        if self.config.redundant_forward {
            self.revisit(&queries, b, prompt, &mut selections)?;
        }
        let mut mixed = None;
        if self.config.beta > 0.0 {
            let prompt = self.revisit(&queries, pseudo.confident.len(), prompt, &mut selections)?;
            if !pseudo.confident.is_empty() {
                let mix = Mix::draw(&pseudo, self.draws.as_ref(), self.step, self.config.alpha);
                let x = self.mixed_embedding(&pseudo.confident, &mix, images, &embedding)?;
                let z = self.logits(self.model.as_ref(), &x, self.prompt(prompt)?)?;
                mixed = Some(z.detach());
                gradients.accumulate(self.consistency(&mix, z, b, &mut losses)?)?;
            }
        }
        // 6. One step down L_mi + β L_ic (Eq. 10).
        self.update(&gradients)?;
        // 7. The key (Eq. 11).
        if let ([selection], Retrieval::OncePerBatch, false) =
            (selections.as_slice(), self.config.retrieval, self.config.oracle)
        {
            self.memory.update_key(selection, &queries)?;
        }
        // 8. The prediction that counts (Eq. 1).
        let prompt = match self.config.retrieval {
            Retrieval::OncePerBatch => prompt,
            Retrieval::EveryForward => self.allocate(&queries, b, &mut selections)?,
        };
        let logits = self.prediction(&embedding, prompt)?;
        for value in logits.to_vec()? {
            finite("a logit after the update", value, self.step)?;
        }
        let PseudoLabels { labels: pseudo_labels, confident } = pseudo;
        Ok(Adaptation { logits, before, selections, pseudo_labels, confident, mixed, losses })
    }

    /// Retrieval with allocation (Eq. 2-5). Returns the prompt's number, none where prompts are off.
    fn allocate(
        &mut self,
        queries: &Queries,
        images: usize,
        selections: &mut Vec<Selection>,
    ) -> Result<Option<u64>> {
        let retriever = Retriever::new(&self.config, &*self.draws, self.domain);
        let Some(selection) = retriever.select(&mut self.memory, queries, images)? else {
            return Ok(None);
        };
        let id = selection.id;
        self.chosen(selection, queries, selections)?;
        Ok(Some(id))
    }

    /// Retrieval for a later forward pass of the batch, without allocation; the prompt stays where the batch keeps it.
    fn revisit(
        &mut self,
        queries: &Queries,
        images: usize,
        prompt: Option<u64>,
        selections: &mut Vec<Selection>,
    ) -> Result<Option<u64>> {
        if self.config.retrieval == Retrieval::OncePerBatch || self.config.oracle {
            return Ok(prompt);
        }
        let Some(selection) = self.memory.lookup(queries, images)? else { return Ok(prompt) };
        let id = selection.id;
        self.chosen(selection, queries, selections)?;
        Ok(Some(id))
    }

    fn chosen(
        &mut self,
        selection: Selection,
        queries: &Queries,
        selections: &mut Vec<Selection>,
    ) -> Result<()> {
        if self.config.retrieval == Retrieval::EveryForward && !self.config.oracle {
            self.memory.update_key(&selection, queries)?;
        }
        selections.push(selection);
        Ok(())
    }

    /// The gradients of `β L_ic`, from the logits `[|S|, C]` of the mixed samples of a batch of `b`: Eq. 9, and its term
    /// of Eq. 10.
    fn consistency(
        &self,
        mix: &Mix,
        z: Tensor,
        b: usize,
        losses: &mut Losses,
    ) -> Result<Gradients> {
        let n = match self.config.consistency_denominator {
            Denominator::Batch => b,
            Denominator::Present => z.shape()[0],
        };
        let l_ic = match self.config.loss {
            LossForm::Shannon => loss::interpolation_consistency(&z, mix.labels(), n)?,
            LossForm::DoubleSoftmax => loss::double_softmax_consistency(&z, mix.labels(), n)?,
        };
        drop(z);
        let (value, beta) = (finite("L_ic", l_ic.item()?, self.step)?, self.config.beta as f32);
        losses.consistency = Some(value);
        losses.total += beta * value;
        Ok(l_ic.scale(beta)?.backward()?)
    }

    /// A fresh optimizer every time: neither rule remembers anything from batch to batch.
    fn update(&mut self, gradients: &Gradients) -> Result<()> {
        let rule = match self.config.optimizer {
            OptimizerKind::Sgd => Rule::Sgd(Sgd::default()),
            OptimizerKind::AdamPerBatch => Rule::FreshAdam { eps: ADAM_EPS },
        };
        let groups = vec![
            Group { select: self.config.fast(), lr: self.config.lr_prompts as f32 },
            Group { select: self.config.slow(), lr: self.config.lr_blocks as f32 },
        ];
        let mut optimizer = Optimizer::new(rule, groups);
        optimizer.step(self.model.params_mut(), gradients)?;
        optimizer.step(self.memory.prompts_mut(), gradients)?;
        self.model.params_mut().freeze();
        self.memory.prompts_mut().freeze();
        Ok(())
    }
}
