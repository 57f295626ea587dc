//! PAINT as a [`Method`].

use std::sync::Arc;

use paint_nn::backbone::{Backbone, Features};
use paint_nn::prompt::PromptMemory;
use paint_tensor::Tensor;

use super::algorithm::{Adaptation, Paint};
use super::networks::Networks;
use super::objective::Losses;
use super::retrieval::Retriever;
use crate::method::{Method, Predictor, PromptUse, State, Step};
use crate::{Error, Result};

impl Adaptation {
    /// The prompt that made the prediction, and how many the batch made on the way.
    fn prompt_use(&self) -> Option<PromptUse> {
        let last = self.selections.last()?;
        let made: Vec<usize> = self
            .selections
            .iter()
            .filter(|selection| selection.allocated)
            .map(|selection| selection.id as usize)
            .collect();
        let index = last.id as usize;
        Some(PromptUse {
            index,
            allocated: made.contains(&index),
            made,
            reliability: last.reliability,
        })
    }
}

/// One state of the method.
struct Reader {
    networks: Networks,
    memory: PromptMemory,
    retriever: Retriever,
}

impl Predictor for Reader {
    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        look(&self.networks, &self.memory, &self.retriever, (images, None))
    }

    fn logits_beside(&self, images: &Tensor, frozen: &Features) -> Result<Tensor> {
        look(&self.networks, &self.memory, &self.retriever, (images, Some(frozen)))
    }
}

/// The prediction of images with the prompt that fits best, or none where none fits; beside them what the source gives
/// for them, where that is known.
fn look(
    networks: &Networks,
    memory: &PromptMemory,
    retriever: &Retriever,
    (images, frozen): (&Tensor, Option<&Features>),
) -> Result<Tensor> {
    let (embedding, queries) = networks.look_up(images, frozen, retriever.may_find(memory))?;
    let prompt = retriever.find(memory, queries.as_ref())?;
    let prompt = prompt.map(|id| memory.prompt(id)).transpose()?;
    networks.logits(&embedding, prompt)
}

impl Paint {
    /// What a caller gets of a batch.
    fn report(&self, adaptation: Adaptation) -> Step {
        let Losses { entropy, diversity, consistency, total } = adaptation.losses;
        let mut scalars = vec![
            ("loss", f64::from(total)),
            ("loss_entropy", f64::from(entropy)),
            ("loss_diversity", f64::from(diversity)),
        ];
        scalars.extend(consistency.map(|value| ("loss_consistency", f64::from(value))));
        scalars.push(("confident", adaptation.confident.len() as f64));
        scalars.push(("prompts", self.memory.len() as f64));
        let prompt = adaptation.prompt_use();
        Step { logits: adaptation.logits, scalars, prompt }
    }
}

impl Method for Paint {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        self.adapt(images).map(|adaptation| self.report(adaptation))
    }

    fn step_beside(&mut self, images: &Tensor, frozen: &Features) -> Result<Step> {
        self.adapt_beside(images, Some(frozen)).map(|adaptation| self.report(adaptation))
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        look(&self.networks, &self.memory, &self.retriever, (images, None))
    }

    fn predict_beside(&self, images: &Tensor, frozen: &Features) -> Result<Tensor> {
        look(&self.networks, &self.memory, &self.retriever, (images, Some(frozen)))
    }

    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        Some(Arc::new(Reader {
            networks: self.networks.duplicate(),
            memory: self.memory.clone(),
            retriever: self.retriever.clone(),
        }))
    }

    fn probe(&self, images: &Tensor) -> Result<Tensor> {
        let (embedding, queries) = self.networks.look_up(images, None, true)?;
        let mut memory = self.memory.clone();
        let selection = self.retriever.select(&mut memory, queries.as_ref())?;
        let prompt = selection.map(|selection| memory.prompt(selection.id)).transpose()?;
        self.networks.logits(&embedding, prompt)
    }

    fn prompt_learner(&self) -> Option<Box<dyn Method>> {
        (self.config.prompt_length > 0)
            .then(|| Box::new(self.with_frozen_network()) as Box<dyn Method>)
    }

    fn reset(&mut self) -> Result<()> {
        self.networks.reset();
        self.memory.reset();
        self.step = 0;
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.counters.insert("step".into(), self.step);
        state.nest("memory", self.memory.save()?);
        state.nest("model", self.networks.save());
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        let step = state.counter("step")?;
        let mut memory = self.memory.clone();
        memory.load(&state.part("memory"))?;
        let width = self.networks.query_width();
        let keys = memory.ids().into_iter().filter_map(|id| memory.key(id));
        if let Some(other) = keys.map(<[f32]>::len).find(|found| *found != width) {
            let (expected, found) = (format!("keys of {width} numbers"), other.to_string());
            return Err(Error::State { expected, found });
        }
        let model = self.networks.loaded(&state.part("model"))?;
        (self.step, self.memory, self.networks.model) = (step, memory, model);
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        let prompts = self.memory.ids().into_iter().map(|id| format!("prompts.{id}"));
        self.networks.trainable().into_iter().chain(prompts).collect()
    }

    fn model(&self) -> Option<&dyn Backbone> {
        Some(self.networks.model.as_ref())
    }

    fn set_domain(&mut self, domain: Option<usize>) {
        self.retriever.domain = domain;
    }
}
