//! EcoTTA: memory-efficient adaptation through meta networks (Song et al. 2023).
//!
//! The network stays frozen. It is cut into parts, and a small *meta network* is attached to each: a batch norm after
//! the part, and a convolution around it. They are warmed up on labelled source images; in the stream they alone learn,
//! from the entropy of confident samples, and each is held to what its part gives without it. The prediction that counts
//! is the one made before the step.
//!
//! Symbols: `K` parts, `x̃_{k-1}` what part `k` reads, `x_k = F_k(x̃_{k-1})` what it gives, `θ_k` the parameters of its
//! meta network, `E₀` the margin of entropies, `λ` the weight of the regularisation, `C` classes. In every pass
//!
//! 1. `x̃_k = BN(x_k) + relu(BN(conv(x̃_{k-1})))`, which part `k + 1` or the classifier reads.
//!
//! Before deployment:
//!
//! 2. The warm-up: one step on all `θ` for each source batch, on the cross-entropy of its labels.
//!
//! For each batch:
//!
//! 3. `L_ent`: the mean entropy of the samples with `H < E₀`.
//! 4. `R_k = mean |x̃_k - x_k|`, whose gradient reaches `θ_k` alone.
//! 5. One step on all `θ`, on `L_ent + λ Σ R_k`.
//!
//! # Fidelity
//! The authors' code is not public; they published a notebook that builds the network and hints at the rest. "Community"
//! is the implementation Lily-Le/EcoTTA, which contains that notebook.
//! - `parts`: `K` is 4 or 5 in the paper. The shallow parts are shorter: thirds of the blocks, of which the first are
//!   halved until there are `K`. That gives the paper's numbers of blocks (as the community has them) for WideResNet-28
//!   and -40 and, with 4 parts, for ResNet-50; with 5 it has 3, 3, 2, 3, 5 there, where the community has 2, 2, 4, 4, 4.
//! - `kernel`: 3 in the notebook, which also provides for 1.
//! - `frozen_statistics`: batch norms of the frozen network use the statistics of training; those of the meta networks
//!   always use the batch, in the warm-up too. `batch` lets the frozen ones use the batch as well.
//! - `entropy_trains`: the loss of the paper sums over all `θ_k`, so the entropy trains `all`. In the notebook each
//!   part's input is detached where `R` is computed; an entropy of that pass trains the `last` meta network alone.
//! - `R` is a mean over elements, as in the notebook. `λ` is 0.5 in the paper; the community's README uses 0.25.
//! - `warmup_images`: the community repeats CIFAR's 50,000 images ten times at a rate of 0.05, in batches of 64. One
//!   pass is the default here; 500000 gives all ten. Fewer source images are repeated. SGD with momentum, at a constant
//!   rate; adaptation begins with an optimizer of its own.
//! - `warmup_views`: the community varies colours and blurs a fifth of the images. Where this is true, each batch is seen
//!   as one view of CoTTA's, which also moves and turns it.
//! - `optimizer`, `lr`: the notebook refers to EATA's for ImageNet. For CIFAR it is the community's 5e-3.
//! - Networks without batch norms and ConvNeXt are not in the paper; they work the same.

mod meta;

use std::sync::Arc;

use paint_nn::backbone::{BnMode, Request};
use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, between, choice, linear, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::attached::Attached;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::draws::{Draws, padded_view};
use crate::entropy_filter::Entropies;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::Preset;
use crate::settings::{Settings, read_with};
use crate::source_data::Labelled;
use meta::{Part, Pass, Purpose};

const NAME: &str = "ecotta";

/// The name of the meta networks in states.
const META: &str = "meta";

choice! {
    /// Which meta networks the entropy trains.
    pub enum EntropyTrains {
        /// Every one, through the frozen parts after it.
        All = "all",
        /// The last, so that nothing passes a frozen part backwards.
        Last = "last",
    }
}

choice! {
    /// What the batch norms of the frozen network use.
    pub enum FrozenStatistics {
        /// The statistics of training.
        Source = "source",
        /// Those of the batch.
        Batch = "batch",
    }
}

settings! {
    /// The settings of EcoTTA.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `K`, the parts of the network.
        #[within(between(3.0, 6.0))]
        pub parts: usize,
        /// The side of the convolutions' kernels, an odd number.
        #[within(between(1.0, 7.0))]
        pub kernel: usize,
        /// What the batch norms of the frozen network use.
        pub frozen_statistics: FrozenStatistics,
        /// How many source images the warm-up takes.
        pub warmup_images: usize,
        /// Its batch size.
        #[within(at_least(1.0))]
        pub source_batch: usize,
        /// Its learning rate.
        #[within(at_least(0.0))]
        pub warmup_lr: f64,
        /// Whether it sees augmented views in place of the images.
        pub warmup_views: bool,
        /// `E₀` as a share of `ln C`.
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.2, 0.8))]
        pub e0: f64,
        /// `λ`, the weight of the distances from the frozen parts.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(0.05, 5.0))]
        pub regularization: f64,
        /// Which meta networks the entropy trains.
        pub entropy_trains: EntropyTrains,
        /// The optimizer of the adaptation.
        pub optimizer: Descent,
        /// Its learning rate.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self {
            preset,
            parts: 5,
            kernel: 3,
            frozen_statistics: FrozenStatistics::Source,
            warmup_images: 50_000,
            source_batch: 64,
            warmup_lr: 0.05,
            warmup_views: false,
            e0: 0.4,
            regularization: 0.5,
            entropy_trains: EntropyTrains::All,
            optimizer: Descent::Momentum,
            lr: if preset.is_cifar() { 5e-3 } else { 2.5e-4 },
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;

    fn read(settings: &toml::Table) -> Result<Self> {
        read_with(NAME, settings, Self::preset, |c: &Self| {
            vec![(c.kernel % 2 == 1, "kernel must be an odd number")]
        })
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2303.01904",
    what: "trains small networks beside a frozen one, held to what its parts give without them",
    needs_source: SourceNeed::Labelled,
    runs_on: Networks::Convolutional,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(EcoTta::new(args, Config::read(settings)?)?)))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct EcoTta {
    config: Config,
    /// The frozen network.
    learner: Learner,
    parts: Arc<[Part]>,
    /// The parameters of the meta networks.
    meta: Attached,
}

impl EcoTta {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        args.convolutional(NAME)?;
        let (source, draws) = (args.labelled(NAME)?, args.draws());
        let mode = match config.frozen_statistics {
            FrozenStatistics::Source => BnMode::Running,
            FrozenStatistics::Batch => BnMode::Batch,
        };
        let learner = Learner::frozen(args).with_batch_norm(mode);
        let parts = meta::parts(learner.source(), &config)?;
        let params = meta::first_values(&parts, &*draws.projector, learner.source())?;
        let warming = Descent::Momentum.optimizer(Trainable::All, config.warmup_lr);
        let meta = Attached::new(params, warming);
        let mut method = Self { config, learner, parts, meta };
        method.warm_up(&source, &draws)?;
        let Config { optimizer, lr, .. } = method.config;
        method.meta = method.meta.with_optimizer(optimizer.optimizer(Trainable::All, lr));
        Ok(method)
    }

    /// Step 2.
    fn warm_up(&mut self, source: &Labelled, draws: &Draws) -> Result<()> {
        let batch = self.config.source_batch;
        for number in 0..(self.config.warmup_images / batch) as u64 {
            let (mut images, labels) = source.shuffled(&*draws.order, number, batch)?;
            if self.config.warmup_views {
                images = padded_view(&*draws.views, number, &images)?;
            }
            self.meta.track();
            let z = self.forward(&images, &self.pass(Purpose::Predict))?;
            let loss = loss::cross_entropy(&z, &labels)?.mean_all()?;
            self.learner.finite("the loss of the warm-up", loss.item()?)?;
            self.meta.update(&loss.backward()?, &self.learner)?;
        }
        Ok(())
    }

    fn pass(&self, purpose: Purpose) -> Pass<'_> {
        Pass::new(&self.parts, &self.meta, purpose)
    }

    /// Step 1: `[B, C]` logits.
    fn forward(&self, images: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let request = Request { after_block: Some(pass), ..self.learner.request() };
        Ok(self.learner.model().forward(images, &request)?.logits)
    }
}

impl Adapt for EcoTta {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 3. The entropy of confident samples.
        self.meta.track();
        let pass = self.pass(Purpose::Adapt(self.config.entropy_trains));
        let z = self.forward(images, &pass)?;
        let entropies = Entropies::new(&z, self.config.e0)?;
        let kept = entropies.reliable(0..entropies.values.len());
        let entropy = entropies.mean_of(&kept)?;
        // 4. How far the parts are from the frozen ones.
        let mut apart = Tensor::zeros([], &self.learner.device())?;
        for distance in pass.apart() {
            apart = apart.add(&distance)?;
        }
        // 5. One step.
        let loss = entropy.add(&apart.scale(self.config.regularization as f32)?)?;
        self.learner.finite("the loss", loss.item()?)?;
        let scalars = vec![
            ("kept", kept.len() as f64),
            ("entropy", f64::from(entropy.item()?)),
            ("apart", f64::from(apart.item()?)),
        ];
        let logits = z.detach();
        drop((z, entropies, entropy, apart));
        self.meta.update(&loss.backward()?, &self.learner)?;
        Ok(Step { logits, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.forward(images, &self.pass(Purpose::Predict))
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest(META, self.meta.save());
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.meta.load(&state.part(META))
    }

    fn trainable_rest(&self) -> Vec<String> {
        self.meta.names(META)
    }

    /// Through the batch norms of the meta networks.
    fn mixes_images(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
