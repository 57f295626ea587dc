//! The networks of PAINT and their forward passes.
//!
//! Passes whose size depends on the batch size alone (the queries, the first prediction with `L_mi` and its
//! gradients, the last prediction) are [`Routine`]s: what changes between batches is an input, the rest belongs to
//! the frozen source. The pass over the confident samples has another size in every batch. If only some classes
//! compete, the host looks up their rows of the head, and the two predictions are never recorded.

use std::cell::Cell;

use paint_nn::backbone::{Backbone, Features, Pooling, PromptPosition, Request, Spec};
use paint_nn::params::{ParamId, Params, Trainable};
use paint_nn::prompt::Queries;
use paint_nn::state::State;
use paint_tensor::{Fetch, Gradients, Routine, Tensor};

use super::choice::Keys;
use super::config::{Config, NAME};
use super::mixing::PseudoLabels;
use super::objective::MutualInformation;
use super::quirks::Quirks;
use crate::build_args::BuildArgs;
use crate::images;
use crate::learner::{load_params, save_params};
use crate::statistics::Standard;
use crate::{Error, Result};

/// What is computed again for every batch.
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

/// The inputs of a recorded pass of the adapting model.
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

/// What the first prediction of a batch gives (steps 3 and 4).
pub(super) struct Tuning {
    /// `[B, C]`.
    pub(super) logits: Tensor,
    /// The mean entropy of the predictions, `[]`.
    pub(super) entropy: Tensor,
    /// The entropy of the mean prediction, `[]`.
    pub(super) diversity: Tensor,
    /// The gradients of `L_mi`; none where it does not take part.
    pub(super) gradients: Gradients,
    /// Of the pseudo labels.
    pub(super) evidence: Evidence,
}

/// What pseudo labels are taken from ([`PseudoLabels::evidence`]).
pub(super) enum Evidence {
    /// On its way since the forward pass, so that the host reads it while a GPU computes gradients.
    Coming(Fetch),
    /// The result of a replay, which is there when all of it is.
    Replayed(Tensor),
}

impl Evidence {
    /// Waits for it. Of a batch of `b`; `phi` is `φ`.
    pub(super) fn pseudo_labels(self, b: usize, phi: f64, quirks: Quirks) -> Result<PseudoLabels> {
        let evidence = match self {
            Self::Coming(fetch) => fetch.finish()?,
            Self::Replayed(evidence) => evidence.to_vec()?,
        };
        Ok(PseudoLabels::of(&evidence, b, phi, quirks))
    }
}

/// How queries are taken; none where they are raw.
fn standard(args: &BuildArgs<'_>, config: &Config) -> Result<Option<Standard>> {
    if config.prompt_length == 0 || config.keys == Keys::Raw {
        return Ok(None);
    }
    let Some(statistics) = args.source_statistics()? else {
        let why = "keys = \"standardised\" needs source statistics; `paint stats` makes them";
        return Err(Error::Config { method: NAME, why: why.to_owned() });
    };
    statistics.check(args.model)?;
    Standard::new(&statistics.query, &args.model.params().device()).map(Some)
}

/// The frozen source and the model that adapts.
pub(super) struct Networks {
    source: Box<dyn Backbone>,
    /// The source for recorded passes: a watched network cannot count their replays, which are reported to `source`.
    unwatched: Box<dyn Backbone>,
    pub(super) model: Box<dyn Backbone>,
    /// Where keys are standardised.
    standard: Option<Standard>,
    has_prompts: bool,
    /// The parameters of the model that train.
    trained: Trainable,
    position: PromptPosition,
    pooling: Pooling,
    classes: Option<Vec<usize>>,
    pub(super) routines: Routines,
}

impl Networks {
    /// Duplicates of a model. Prompts need a vision transformer; with any other network they are refused.
    pub(super) fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let spec = args.model.spec();
        let refuse = |why| Err(Error::Config { method: NAME, why });
        if config.prompt_length > 0 && args.model.vit_config().is_none() {
            return refuse(format!(
                "prompts are tokens of a vision transformer, and {} is none; \
                 prompt_length = 0 adapts it without them",
                spec.name
            ));
        }
        if config.blocks > spec.depth {
            let why = format!("blocks is {}, {} has {}", config.blocks, spec.name, spec.depth);
            return refuse(why);
        }
        let source = args.frozen_model();
        Ok(Self {
            unwatched: source.unwatched(),
            standard: standard(args, config)?,
            has_prompts: config.prompt_length > 0,
            model: source.duplicate(),
            source,
            trained: config.trained(),
            position: config.prompt_position,
            pooling: config.pooling,
            classes: args.classes.map(<[usize]>::to_vec),
            routines: Routines::default(),
        })
    }

    /// The same networks, which share memory until one of them is updated.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            source: self.source.duplicate(),
            unwatched: self.unwatched.duplicate(),
            model: self.model.duplicate(),
            standard: self.standard.clone(),
            has_prompts: self.has_prompts,
            trained: self.trained.clone(),
            position: self.position,
            pooling: self.pooling,
            classes: self.classes.clone(),
            routines: Routines::default(),
        }
    }

    /// Sizes and preprocessing.
    pub(super) fn spec(&self) -> &Spec {
        self.source.spec()
    }

    /// The parameters of the adapting model.
    pub(super) fn params_mut(&mut self) -> &mut Params {
        self.model.params_mut()
    }

    /// Lets gradients reach what trains.
    pub(super) fn track(&mut self) {
        self.model.params_mut().track(&self.trained);
    }

    /// Back to the source.
    pub(super) fn reset(&mut self) {
        self.model = self.source.duplicate();
    }

    /// The trained values.
    pub(super) fn save(&self) -> State {
        save_params(self.model.params(), &self.trained)
    }

    /// The source with trained values that were saved.
    pub(super) fn loaded(&self, state: &State) -> Result<Box<dyn Backbone>> {
        let mut model = self.source.duplicate();
        load_params(model.params_mut(), &self.trained, state)?;
        Ok(model)
    }

    /// The names of what trains.
    pub(super) fn trainable(&self) -> Vec<String> {
        self.model.params().names(&self.trained)
    }

    /// The source's embedding `[B, N, D]` of images.
    pub(super) fn embed(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.source.embed(images)?)
    }

    /// The embedding `[B, N, D]` of images and, where a prompt `may_fit`, their `q_i`, without recording. `frozen` is
    /// what the source gives for the images, where that is known.
    pub(super) fn look_up(
        &self,
        images: &Tensor,
        frozen: Option<&Features>,
        may_fit: bool,
    ) -> Result<(Tensor, Option<Queries>)> {
        images::check(images, self.spec())?;
        let embedding = self.embed(images)?;
        let queries = || -> Result<Queries> {
            Ok(match self.known_queries(frozen) {
                Some(known) => Queries::new(known)?,
                None => Queries::new(&self.query_rows(&*self.source, &embedding)?)?,
            })
        };
        let queries = (self.has_prompts && may_fit).then(queries).transpose()?;
        Ok((embedding, queries))
    }

    /// The queries, where they are the features of the source and those are known.
    fn known_queries<'a>(&self, frozen: Option<&'a Features>) -> Option<&'a Tensor> {
        let are_features = self.has_prompts && self.standard.is_none();
        frozen.filter(|_| are_features).map(|features| &features.pooled)
    }

    /// The embedding `[B, N, D]` of images and, unless prompts are off, their `q_i`, one a row, both queued (step 1).
    /// `frozen` is what the source gives for the images, where that is known.
    pub(super) fn queries(
        &self,
        images: &Tensor,
        frozen: Option<&Features>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        if let Some(known) = self.known_queries(frozen) {
            return Ok((self.embed(images)?, Some(known.clone())));
        }
        let compute = |images: &[Tensor]| -> Result<Vec<Tensor>> {
            let embedding = self.unwatched.embed(&images[0])?;
            let queries = || self.query_rows(&*self.unwatched, &embedding);
            let queries = self.has_prompts.then(queries).transpose()?;
            Ok([embedding].into_iter().chain(queries).collect())
        };
        let given = self.routines.queries.run(&[images], compute)?;
        let (embedding, queries) = (given[0].clone(), given.get(1).cloned());
        if queries.is_some() {
            self.source.note_pass(images.shape()[0], false);
        }
        Ok((embedding, queries))
    }

    /// The length of a query.
    pub(super) fn query_width(&self) -> usize {
        self.standard.as_ref().map_or(self.spec().feature_dim, Standard::width)
    }

    /// `q_i` of an embedding, one a row: the features of the source, or what `statistics/query.rs` makes of them.
    fn query_rows(&self, source: &dyn Backbone, embedding: &Tensor) -> Result<Tensor> {
        match &self.standard {
            None => Ok(source.forward_embedded(embedding, &Request::default())?.pooled),
            Some(standard) => standard.queries(source, embedding),
        }
    }

    /// Eq. 1 up to the softmax: the logits `[n, C]` of `H(F([P; E]))` for an embedding `E` and a prompt `P`, or none.
    pub(super) fn logits(&self, embedding: &Tensor, prompt: Option<&Tensor>) -> Result<Tensor> {
        self.logits_of(self.model.as_ref(), embedding, prompt)
    }

    fn logits_of(
        &self,
        model: &dyn Backbone,
        embedding: &Tensor,
        prompt: Option<&Tensor>,
    ) -> Result<Tensor> {
        let request = Request {
            prompt,
            position: self.position,
            pooling: self.pooling,
            classes: self.classes.as_deref(),
            ..Request::default()
        };
        Ok(model.forward_embedded(embedding, &request)?.logits)
    }

    /// The parameters of the model that train.
    fn values(&self) -> Vec<ParamId> {
        self.model.params().select(&self.trained)
    }

    fn inputs<'a>(&'a self, embedding: &'a Tensor, prompt: Option<&'a Tensor>) -> Inputs<'a> {
        let values = self.values().into_iter().map(|id| &self.model.params()[id]).collect();
        Inputs { embedding, values, prompt }
    }

    /// The source model with given values of what trains.
    fn with_values(&self, values: &[&Tensor], tracked: bool) -> Result<Box<dyn Backbone>> {
        let mut model = self.unwatched.duplicate();
        if tracked {
            model.params_mut().track(&self.trained);
        }
        for (id, value) in self.values().into_iter().zip(values) {
            model.params_mut().set(id, value)?;
        }
        Ok(model)
    }

    /// `[B, C]`, the prediction of a batch with a prompt or none (step 8).
    pub(super) fn prediction(&self, embedding: &Tensor, prompt: Option<&Tensor>) -> Result<Tensor> {
        let inputs = self.inputs(embedding, prompt);
        let compute = |list: &[Tensor]| -> Result<Vec<Tensor>> {
            let Inputs { embedding, values, prompt } = inputs.of(list);
            let model = self.with_values(&values, false)?;
            Ok(vec![self.logits_of(model.as_ref(), embedding, prompt)?])
        };
        let given = self.routines.prediction.run(&inputs.list(), compute)?;
        self.source.note_pass(embedding.shape()[0], false);
        Ok(given[0].clone())
    }

    /// The prediction before the update, its `L_mi` and the gradients of that (steps 3 and 4).
    pub(super) fn tuning(
        &self,
        embedding: &Tensor,
        prompt: Option<&Tensor>,
        l_mi: MutualInformation,
    ) -> Result<Tuning> {
        let inputs = self.inputs(embedding, prompt);
        let b = embedding.shape()[0];
        let coming = Cell::new(None);
        let compute = |list: &[Tensor]| -> Result<Vec<Tensor>> {
            let Inputs { embedding, values, prompt } = inputs.of(list);
            let model = self.with_values(&values, true)?;
            let prompt = prompt.map(Tensor::variable);
            let z = self.logits_of(model.as_ref(), embedding, prompt.as_ref())?;
            let evidence = PseudoLabels::evidence(&z.detach())?;
            coming.set(evidence.fetch()?);
            let (entropy, diversity) = l_mi.terms(&z)?;
            let mut given = vec![z.detach(), entropy.detach(), diversity.detach(), evidence];
            if !l_mi.counts(b) {
                return Ok(given);
            }
            // The logits keep the activations of the pass alive.
            drop(z);
            let gradients = l_mi.total(&entropy, &diversity)?.backward()?;
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
        self.source.note_pass(b, true);
        let mut gradients = Gradients::default();
        for (variable, gradient) in inputs.list()[1..].iter().zip(&given[4..]) {
            gradients.insert(variable, gradient.clone());
        }
        let [logits, entropy, diversity, evidence] = [0, 1, 2, 3].map(|at| given[at].clone());
        let evidence = coming.take().map_or(Evidence::Replayed(evidence), Evidence::Coming);
        Ok(Tuning { logits, entropy, diversity, gradients, evidence })
    }
}
