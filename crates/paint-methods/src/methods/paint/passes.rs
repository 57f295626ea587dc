//! The passes of a step whose size the batch alone decides: the queries, the first prediction with `L_mi` and its
//! gradients, and the last prediction. Each is a [`Routine`]; what changes between batches goes in as an input, and the
//! rest is the frozen source model's. The pass over the confident samples has another size in every batch. (Where only some
//! classes compete, their rows of the head are looked up by the host, and the two predictions are never recorded.)

use paint_nn::backbone::{Backbone, Request};
use paint_nn::loss;
use paint_nn::params::ParamId;
use paint_nn::prompt::Queries;
use paint_tensor::{Gradients, Routine, Tensor};

use super::choice::LossForm;
use super::{Losses, Paint};
use crate::Result;
use crate::learner::finite;

/// What is asked for again with every batch.
#[derive(Default)]
pub(super) struct Routines {
    queries: Routine,
    tuning: Routine,
    prediction: Routine,
}

impl Routines {
    /// Whether every pass like the last one is replayed.
    #[cfg(test)]
    pub(super) fn are_recorded(&self) -> bool {
        [&self.queries, &self.tuning, &self.prediction].into_iter().all(Routine::is_recorded)
    }
}

/// The inputs of a pass with the adapting model.
struct Inputs<'a> {
    embedding: &'a Tensor,
    /// The parameters that train, in order.
    values: Vec<&'a Tensor>,
    prompt: Option<&'a Tensor>,
}

impl<'a> Inputs<'a> {
    fn list(&self) -> Vec<&'a Tensor> {
        [self.embedding].into_iter().chain(self.values.iter().copied()).chain(self.prompt).collect()
    }

    /// The same places of another list.
    fn of<'b>(&self, list: &'b [Tensor]) -> Inputs<'b> {
        let (embedding, rest) = list.split_first().expect("the embedding comes first");
        let (values, prompt) = rest.split_at(self.values.len());
        Inputs { embedding, values: values.iter().collect(), prompt: prompt.first() }
    }
}

impl Paint {
    /// The embedding `[B, N, D]` of images and their `q_i` (step 1).
    pub(super) fn queries(&self, images: &Tensor) -> Result<(Tensor, Queries)> {
        let compute = |images: &[Tensor]| -> Result<Vec<Tensor>> {
            let embedding = self.unwatched.embed(&images[0])?;
            let pooled = self.unwatched.forward_embedded(&embedding, &Request::default())?.pooled;
            Ok(vec![embedding, pooled])
        };
        let given = self.routines.queries.run(&[images], compute)?;
        self.source.note_pass(images.shape()[0], false);
        Ok((given[0].clone(), Queries::new(&given[1])?))
    }

    /// Eq. 1 up to the softmax: the logits `[n, C]` of `H(F([P; E]))` for an embedding `E` and a prompt `P`, or none.
    pub(super) fn logits(
        &self,
        model: &dyn Backbone,
        embedding: &Tensor,
        prompt: Option<&Tensor>,
    ) -> Result<Tensor> {
        let request = Request {
            prompt,
            position: self.config.prompt_position,
            pooling: self.config.pooling,
            classes: self.classes.as_deref(),
            ..Request::default()
        };
        Ok(model.forward_embedded(embedding, &request)?.logits)
    }

    /// A prompt of the memory, by its number.
    pub(super) fn prompt(&self, id: Option<u64>) -> Result<Option<&Tensor>> {
        Ok(id.map(|id| self.memory.prompt(id)).transpose()?)
    }

    /// The parameters of the model that train.
    fn values(&self) -> Vec<ParamId> {
        self.model.params().select(&self.trained())
    }

    fn inputs<'a>(&'a self, embedding: &'a Tensor, prompt: Option<u64>) -> Result<Inputs<'a>> {
        let values = self.values().into_iter().map(|id| &self.model.params()[id]).collect();
        Ok(Inputs { embedding, values, prompt: self.prompt(prompt)? })
    }

    /// The source model with given values of what trains.
    fn with_values(&self, values: &[&Tensor], tracked: bool) -> Result<Box<dyn Backbone>> {
        let mut model = self.unwatched.duplicate();
        if tracked {
            model.params_mut().track(&self.trained());
        }
        for (id, value) in self.values().into_iter().zip(values) {
            model.params_mut().set(id, value)?;
        }
        Ok(model)
    }

    /// `[B, C]`, the prediction of a batch with a prompt of the memory, or with none (step 8).
    pub(super) fn prediction(&self, embedding: &Tensor, prompt: Option<u64>) -> Result<Tensor> {
        let inputs = self.inputs(embedding, prompt)?;
        let compute = |list: &[Tensor]| -> Result<Vec<Tensor>> {
            let Inputs { embedding, values, prompt } = inputs.of(list);
            let model = self.with_values(&values, false)?;
            Ok(vec![self.logits(model.as_ref(), embedding, prompt)?])
        };
        let given = self.routines.prediction.run(&inputs.list(), compute)?;
        self.source.note_pass(embedding.shape()[0], false);
        Ok(given[0].clone())
    }

    /// The prediction before the update, `[B, C]`, its `L_mi` and the gradients of that (steps 3 and 4). `L_mi` is Eq. 6
    /// term by term, because each has a weight: with both 1 it is [`loss::mutual_information`].
    pub(super) fn mutual_information(
        &self,
        embedding: &Tensor,
        prompt: Option<u64>,
    ) -> Result<(Tensor, Losses, Gradients)> {
        let (w_entropy, w_diversity) =
            (self.config.entropy_weight as f32, self.config.diversity_weight as f32);
        let inputs = self.inputs(embedding, prompt)?;
        let compute = |list: &[Tensor]| -> Result<Vec<Tensor>> {
            let Inputs { embedding, values, prompt } = inputs.of(list);
            let model = self.with_values(&values, true)?;
            let prompt = prompt.map(Tensor::variable);
            let z = self.logits(model.as_ref(), embedding, prompt.as_ref())?;
            let (entropy, diversity) = match self.config.loss {
                LossForm::Shannon => (loss::mean_entropy(&z)?, loss::marginal_entropy(&z)?),
                LossForm::DoubleSoftmax => {
                    (loss::double_softmax_entropy(&z)?, loss::double_softmax_diversity(&z)?)
                }
            };
            let mut given = vec![z.detach(), entropy.detach(), diversity.detach()];
            let alone = z.shape()[0] == 1 && w_entropy == w_diversity;
            if alone || (w_entropy == 0.0 && w_diversity == 0.0) {
                return Ok(given);
            }
            // The activations of the pass hang on its logits.
            drop(z);
            let total = entropy.scale(w_entropy)?.sub(&diversity.scale(w_diversity)?)?;
            let gradients = total.backward()?;
            let variables = self.values().into_iter().map(|id| &model.params()[id]).chain(&prompt);
            for variable in variables {
                given.push(match gradients.get(variable) {
                    Some(gradient) => gradient.clone(),
                    None => Tensor::zeros(variable.shape(), variable.device())?,
                });
            }
            Ok(given)
        };
        let given = self.routines.tuning.run(&inputs.list(), compute)?;
        self.source.note_pass(embedding.shape()[0], true);
        let entropy = finite("the mean entropy", given[1].item()?, self.step)?;
        let diversity = finite("the entropy of the mean", given[2].item()?, self.step)?;
        let total = w_entropy * entropy - w_diversity * diversity;
        let mut gradients = Gradients::default();
        for (variable, gradient) in inputs.list()[1..].iter().zip(&given[3..]) {
            gradients.insert(variable, gradient.clone());
        }
        Ok((given[0].clone(), Losses { entropy, diversity, consistency: None, total }, gradients))
    }
}
