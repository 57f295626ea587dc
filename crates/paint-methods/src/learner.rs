//! A network that learns: the source, the copy that adapts, and its optimizer.
//!
//! Batch norms use the statistics of the batch, in the source too, unless a method asks for others.
//!
//! Everything here is cheap to clone, because tensors are shared until they are replaced. A step is undone, and a
//! method reset, by restoring a clone.

use std::sync::Arc;

use paint_nn::backbone::{Backbone, BnMode, Features, Request, Spec};
use paint_nn::optim::{Adam, Group, Optimizer, Rule, Sam, Sgd};
use paint_nn::params::{Params, Trainable};
use paint_settings::choice;
use paint_tensor::{Device, Gradients, Tensor};

use crate::build_args::BuildArgs;
use crate::method::State;
use crate::{Error, Result};

choice! {
    /// The optimizers of the baselines. Their state is kept from batch to batch.
    pub enum Descent {
        /// Adam, betas 0.9 and 0.999.
        Adam = "adam",
        /// SGD with momentum 0.9.
        Momentum = "momentum",
        /// SGD with Nesterov momentum 0.9.
        Nesterov = "nesterov",
    }
}

impl Descent {
    /// An optimizer for what `select` covers.
    pub(crate) fn optimizer(self, select: Trainable, lr: f64) -> Optimizer {
        let sgd = |nesterov| Rule::Sgd(Sgd { momentum: 0.9, nesterov, weight_decay: 0.0 });
        let rule = match self {
            Self::Adam => Rule::Adam(Adam::default()),
            Self::Momentum => sgd(false),
            Self::Nesterov => sgd(true),
        };
        Optimizer::new(rule, vec![Group { select, lr: lr as f32 }])
    }
}

/// A network that learns.
pub(crate) struct Learner {
    source: Box<dyn Backbone>,
    model: Box<dyn Backbone>,
    trained: Trainable,
    optimizer: Optimizer,
    classes: Option<Arc<[usize]>>,
    step: u64,
}

impl Clone for Learner {
    fn clone(&self) -> Self {
        Self {
            source: self.source.duplicate(),
            model: self.model.duplicate(),
            trained: self.trained.clone(),
            optimizer: self.optimizer.clone(),
            classes: self.classes.clone(),
            step: self.step,
        }
    }
}

impl Learner {
    /// Adapts `trained` of a duplicate of the model. A network without such parameters is an error, in which `method`
    /// names the method.
    pub(crate) fn new(
        method: &'static str,
        args: &BuildArgs<'_>,
        trained: Trainable,
        optimizer: Optimizer,
    ) -> Result<Self> {
        if args.model.params().select(&trained).is_empty() {
            let why = format!("{} has no parameter of {trained:?}", args.model.spec().name);
            return Err(Error::Config { method, why });
        }
        Ok(Self { trained, optimizer, ..Self::frozen(args) })
    }

    /// A duplicate of the model in which nothing trains.
    pub(crate) fn frozen(args: &BuildArgs<'_>) -> Self {
        let mut source = args.frozen_model();
        source.set_batch_norm(BnMode::Batch);
        let (model, trained) = (source.duplicate(), Trainable::Any(vec![]));
        let optimizer = Descent::Momentum.optimizer(trained.clone(), 0.0);
        Self { source, model, trained, optimizer, classes: args.classes.map(Arc::from), step: 0 }
    }

    /// The same with other statistics in batch norms, of the source too.
    #[must_use]
    pub(crate) fn with_batch_norm(mut self, mode: BnMode) -> Self {
        self.source.set_batch_norm(mode);
        self.model.set_batch_norm(mode);
        self
    }

    /// Sizes and preprocessing of the network.
    pub(crate) fn spec(&self) -> &Spec {
        self.source.spec()
    }

    /// The device of the network.
    pub(crate) fn device(&self) -> Device {
        self.source.params().device()
    }

    /// The network that adapts.
    pub(crate) fn model(&self) -> &dyn Backbone {
        self.model.as_ref()
    }

    /// The network that adapts, to set the statistics of its batch norms.
    pub(crate) fn model_mut(&mut self) -> &mut dyn Backbone {
        self.model.as_mut()
    }

    /// The classes that compete; all without a list.
    pub(crate) fn classes(&self) -> Option<Arc<[usize]>> {
        self.classes.clone()
    }

    /// The network as it was before the first batch.
    pub(crate) fn source(&self) -> &dyn Backbone {
        self.source.as_ref()
    }

    /// What trains.
    pub(crate) fn trained(&self) -> &Trainable {
        &self.trained
    }

    /// Batches so far.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// What a forward pass is asked for: the classes that compete.
    pub(crate) fn request(&self) -> Request<'_> {
        Request { classes: self.classes.as_deref(), ..Request::default() }
    }

    /// A forward pass of one of the method's networks, with the logits of the classes that compete.
    pub(crate) fn forward(&self, network: &dyn Backbone, images: &Tensor) -> Result<Features> {
        Ok(network.forward(images, &self.request())?)
    }

    /// `[B, C]` logits of the adapting network.
    pub(crate) fn logits(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.forward(self.model(), images)?.logits)
    }

    /// Lets gradients reach what trains.
    pub(crate) fn track(&mut self) {
        self.model.params_mut().track(&self.trained);
    }

    /// Lets gradients reach nothing.
    pub(crate) fn freeze(&mut self) {
        self.model.params_mut().freeze();
    }

    /// Sets the learning rate of the next updates.
    pub(crate) fn set_rate(&mut self, lr: f64) {
        self.optimizer.groups_mut().iter_mut().for_each(|group| group.lr = lr as f32);
    }

    /// One optimizer step.
    pub(crate) fn update(&mut self, gradients: &Gradients) -> Result<()> {
        Ok(self.optimizer.step(self.model.params_mut(), gradients)?)
    }

    /// One sharpness-aware step: climbs by `rho` along `first`, takes the gradients that `at_top` computes there, and
    /// applies them at the starting point.
    pub(crate) fn update_sharpness_aware(
        &mut self,
        rho: f64,
        first: &Gradients,
        at_top: impl FnOnce(&Self) -> Result<Gradients>,
    ) -> Result<()> {
        let mut sam = Sam::new(rho as f32, self.optimizer.clone());
        sam.ascend(&mut [self.model.params_mut()], first)?;
        let second = at_top(self)?;
        sam.descend(&mut [self.model.params_mut()], &second)?;
        self.optimizer = sam.inner().clone();
        Ok(())
    }

    /// Replaces the trained parameters: `change` gets the position of each among the trained, its value and its source
    /// value.
    pub(crate) fn replace(
        &mut self,
        mut change: impl FnMut(usize, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<()> {
        let params = self.model.params_mut();
        for (number, id) in params.select(&self.trained).into_iter().enumerate() {
            let value = change(number, &params[id].detach(), &self.source.params()[id])?;
            params.set(id, &value)?;
        }
        Ok(())
    }

    /// Resets the network to the source, and its optimizer. The count of batches goes on.
    pub(crate) fn restore_source(&mut self) {
        self.model = self.source.duplicate();
        self.optimizer.reset();
    }

    /// Back to where it began.
    pub(crate) fn restart(&mut self) {
        self.restore_source();
        self.step = 0;
    }

    /// Ends a batch. A parameter that is not finite is an error.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.freeze();
        let total = total(self.model.params(), &self.trained, &self.device())?;
        self.finite("the sum of the trained parameters", total)?;
        self.step = self.step.saturating_add(1);
        Ok(())
    }

    /// The value, or an error if it is not finite.
    pub(crate) fn finite(&self, what: &'static str, value: f32) -> Result<f32> {
        finite(what, value, self.step)
    }

    /// Parameters, the state of the optimizer and the count of batches.
    pub(crate) fn save(&self) -> State {
        let mut state = State::default();
        state.counters.insert("step".into(), self.step);
        state.nest("model", save_params(self.model.params(), &self.trained));
        state.nest("optimizer", self.optimizer.save());
        state
    }

    /// Continues from a state of [`Learner::save`].
    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
        load_params(self.model.params_mut(), &self.trained, &state.part("model"))?;
        self.optimizer.load(&state.part("optimizer"))?;
        self.step = state.counter("step")?;
        Ok(())
    }
}

/// The value, or an error of batch `step` if it is not finite.
pub(crate) fn finite(what: &'static str, value: f32, step: u64) -> Result<f32> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Error::Diverged { what, value, step })
}

/// The sum of all elements that `choice` covers. It is not finite if any of them is not.
pub(crate) fn total(params: &Params, choice: &Trainable, device: &Device) -> Result<f32> {
    let mut total = Tensor::zeros([], device)?;
    for id in params.select(choice) {
        total = total.add(&params[id].detach().sum_all()?)?;
    }
    Ok(total.item()?)
}

/// The values of what `choice` covers, by name.
pub(crate) fn save_params(params: &Params, choice: &Trainable) -> State {
    let value = |id| (params.param(id).name().to_owned(), params[id].detach());
    State {
        tensors: params.select(choice).into_iter().map(value).collect(),
        counters: std::collections::BTreeMap::new(),
    }
}

/// Takes over values of [`save_params`] for the same `choice`.
pub(crate) fn load_params(params: &mut Params, choice: &Trainable, saved: &State) -> Result<()> {
    let mut names = params.names(choice);
    names.sort_unstable();
    if !saved.tensors.keys().eq(&names) {
        return Err(Error::State {
            expected: format!("{} adapted parameters: {names:?}", names.len()),
            found: format!("{:?}", saved.tensors.keys().collect::<Vec<_>>()),
        });
    }
    for (name, value) in &saved.tensors {
        let id = params.id(name)?;
        params.set(id, value)?;
    }
    Ok(())
}
