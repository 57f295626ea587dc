//! DPCore: a core set of prompts, one for every kind of domain met so far (Zhang et al. 2025).
//!
//! The network stays frozen. Prompt tokens are learnt that bring the class token's mean and deviation over a batch
//! back to those of source images. Prompts are kept with the statistics of the batches they were learnt on; a new
//! batch starts from a mix of those whose batches were like it, and learns a new one only where the mix does not help.
//!
//! Symbols: `μ`, `σ` mean and standard deviation of the class token after the final norm over a batch, `μ_s`, `σ_s` on
//! source images, `d = ‖μ - μ_s‖ + ‖σ - σ_s‖`; `(μ_j, σ_j, P_j)` the core set, `P_j` prompt tokens `[L, D]`; `τ`
//! temperature, `ρ` what counts as help, `α` how fast the set follows. For each batch:
//!
//! 1. `μ`, `σ` and `d` without a prompt.
//! 2. `w = softmax(-(‖μ - μ_j‖ + ‖σ - σ_j‖)/τ)`, `P = Σ w_j P_j`, and `d'` with it.
//! 3. Where `d' < ρ d`: one step on `P` against `d`; then `μ_j ← μ_j + α w_j (μ - μ_j)`, `P_j` alike, and `σ_j` upwards
//!    alone: `σ_j ← σ_j + α w_j max(0, σ - σ_j)`.
//! 4. Elsewhere, and with an empty set: `new_steps` steps from the first prompt, and `(μ, σ, P)` joins the set.
//! 5. The prediction is that of the last forward pass before a step.
//!
//! # Fidelity
//! - Values are those of the authors' code (zybeich/DPCore) for ViT-B on ImageNet-C at batch 64: 8 tokens, `τ = 3`,
//!   `ρ = 0.8`, `α = 0.999`, AdamW made anew for every batch with rate 0.1 and PyTorch's weight decay, 50 steps for a
//!   new prompt. `τ` is in units of `d`, which grows with the width of the network. Nothing is published for CIFAR.
//! - `followed`: in step 3 the code moves `μ_j` and `σ_j` to the statistics *with* the prompt, `prompted`, the default,
//!   though the set is asked with those without one; `plain` moves them to these.
//! - Source statistics come from the first `source_images` source images of which the model is sure. The code's bound
//!   is `ln(1000)/2 - 1` nats, here a share of `ln C`, 0.355; where fewer than two pass, all count.
//! - The first prompt is VPT's: uniform within `√(6/(3 p² + D))`, `p` the side of a patch; the same for every new
//!   domain.
//! - The set grows without bound, as the authors' does: `(2 + L) D` numbers for each new prompt.
//! - One image has no deviation: the terms with `σ` are left out then, and a prompt that it begins has the source's.
//! - A prediction without adaptation uses the mix of step 2 where it helps, and no prompt elsewhere.

mod core_set;

use paint_nn::backbone::{Features, Request};
use paint_nn::optim::{Adam, Group, Optimizer, Rule};
use paint_nn::params::{Params, Role, Trainable};
use paint_settings::{Describe as _, at_least, between, choice, linear, logarithmic, settings};
use paint_tensor::Tensor;

use crate::attached::Attached;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::Entropies;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::Learner;
use crate::method::{PromptUse, State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use crate::{Error, Result};
use core_set::{CoreSet, Moments};

const NAME: &str = "dpcore";

/// Source images that go through the network together.
const CHUNK: usize = 50;

choice! {
    /// The statistics that the core set follows.
    pub enum Followed {
        /// Those with the prompt.
        Prompted = "prompted",
        /// Those without.
        Plain = "plain",
    }
}

settings! {
    /// The settings of DPCore.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// Accepted as by every baseline; the values are the same for all presets.
        pub preset: Preset,
        /// `L`, the tokens of a prompt.
        #[within(at_least(1.0))]
        pub prompt_length: usize,
        /// `τ`, the temperature of the mix.
        #[within(at_least(1e-6))]
        #[tuned(logarithmic(0.1, 30.0))]
        pub temperature: f64,
        /// `ρ`: a mix helps if it brings `d` below this share.
        #[within(at_least(0.0))]
        #[tuned(linear(0.5, 1.0))]
        pub helps: f64,
        /// `α`, how far the set follows a batch.
        #[within(between(0.0, 1.0))]
        pub follow: f64,
        /// The statistics that it follows.
        pub followed: Followed,
        /// Steps for a new prompt.
        #[within(at_least(1.0))]
        pub new_steps: usize,
        /// The learning rate of AdamW.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-3, 1.0))]
        pub lr: f64,
        /// Its weight decay.
        #[within(at_least(0.0))]
        pub weight_decay: f64,
        /// The most source images that make the source statistics.
        #[within(at_least(2.0))]
        pub source_images: usize,
        /// Source images count whose entropy is below this share of `ln C`.
        #[within(between(0.0, 1.0))]
        pub source_entropy: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self {
            preset,
            prompt_length: 8,
            temperature: 3.0,
            helps: 0.8,
            follow: 0.999,
            followed: Followed::Prompted,
            new_steps: 50,
            lr: 0.1,
            weight_decay: 0.01,
            source_images: 300,
            source_entropy: 0.355,
        }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2406.10737",
    what: "prompts that restore the source's statistics, kept in a set and mixed for batches like those met before",
    needs_source: SourceNeed::Unlabelled,
    runs_on: Networks::Transformers,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(DpCore::new(args, Config::read(settings)?)?)))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct DpCore {
    config: Config,
    learner: Learner,
    /// Those of source images.
    source: Moments,
    /// Where a new prompt begins, `[L, D]`.
    first: Tensor,
    /// The prompt of the last batch.
    prompt: Attached,
    cores: CoreSet,
}

/// What a batch is like without a prompt, and what the core set makes of it.
struct Look {
    plain: Moments,
    logits: Tensor,
    /// `d`.
    distance: f32,
    mix: Option<Mix>,
}

/// The mix of a core set.
struct Mix {
    weights: Vec<f32>,
    /// `P`.
    prompt: Tensor,
    logits: Tensor,
    /// Whether `d' < ρ d`.
    helps: bool,
}

impl DpCore {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let vit = args.transformer(NAME)?;
        let learner = Learner::frozen(args);
        let source = source(&learner, args.unlabelled(NAME)?, &config)?;
        let (l, d, p) = (config.prompt_length, vit.embed_dim, vit.patch_size);
        let bound = (6.0 / (3 * p * p + d) as f32).sqrt();
        let uniform = args.draws().projector.projector(0, l * d).into_iter();
        let first = uniform.map(|u| bound * (2.0 * u - 1.0)).collect();
        let first = Tensor::from_vec(first, [l, d], &learner.device())?;
        let prompt = attached(&config, &first)?;
        Ok(Self { config, learner, source, first, prompt, cores: CoreSet::default() })
    }

    fn forward(&self, embedding: &Tensor, prompt: Option<&Tensor>) -> Result<Features> {
        let request = Request { prompt, ..self.learner.request() };
        Ok(self.learner.source().forward_embedded(embedding, &request)?)
    }

    /// Steps 1 and 2.
    fn look(&self, embedding: &Tensor) -> Result<Look> {
        let features = self.forward(embedding, None)?;
        let plain = Moments::of(&features.pooled)?;
        let distance = plain.distance(&self.source)?.item()?;
        let mix = match self.cores.mix(&plain, self.config.temperature)? {
            None => None,
            Some((weights, prompt)) => {
                let prompted = self.forward(embedding, Some(&prompt))?;
                let after = Moments::of(&prompted.pooled)?.distance(&self.source)?.item()?;
                let helps = f64::from(after) < self.config.helps * f64::from(distance);
                Some(Mix { weights, prompt, logits: prompted.logits, helps })
            }
        };
        Ok(Look { plain, logits: features.logits, distance, mix })
    }

    /// Steps on a prompt, from `tokens` on: what the last pass before a step gave.
    fn tune(&mut self, embedding: &Tensor, tokens: &Tensor, steps: usize) -> Result<Tuned> {
        self.prompt = attached(&self.config, tokens)?;
        let mut tuned = self.tune_once(embedding)?;
        for _ in 1..steps {
            tuned = self.tune_once(embedding)?;
        }
        Ok(tuned)
    }

    fn tune_once(&mut self, embedding: &Tensor) -> Result<Tuned> {
        self.prompt.track();
        let features = self.forward(embedding, Some(self.prompt.value(0)))?;
        let moments = Moments::of(&features.pooled)?;
        let loss = moments.distance(&self.source)?;
        let distance = self.learner.finite("the distance of moments", loss.item()?)?;
        self.prompt.update(&loss.backward()?, &self.learner)?;
        Ok(Tuned { logits: features.logits.detach(), moments: moments.detached(), distance })
    }
}

/// The last pass before the last step.
struct Tuned {
    logits: Tensor,
    moments: Moments,
    distance: f32,
}

/// Prompt tokens with an optimizer of their own, made anew.
fn attached(config: &Config, tokens: &Tensor) -> Result<Attached> {
    let adam = Adam { weight_decay: config.weight_decay as f32, ..Adam::default() };
    let group = Group { select: Trainable::All, lr: config.lr as f32 };
    let mut params = Params::default();
    params.insert("tokens", Role::Prompt, tokens.detach())?;
    Ok(Attached::new(params, Optimizer::new(Rule::AdamW(adam), vec![group])))
}

/// The moments of the first source images that the model is sure of.
fn source(learner: &Learner, images: &Tensor, config: &Config) -> Result<Moments> {
    let (n, d) = (images.shape()[0], learner.spec().feature_dim);
    if n < 2 {
        let need = "at least two unlabelled source images";
        return Err(Error::NoSource { method: NAME, need, found: "one" });
    }
    let (mut all, mut sure) = (Vec::new(), Vec::new());
    for first in (0..n).step_by(CHUNK) {
        let chunk = images.slice(0, first, CHUNK.min(n - first))?.detach();
        let features = learner.forward(learner.source(), &chunk)?;
        let entropies = Entropies::new(&features.logits, config.source_entropy)?;
        sure.extend(entropies.reliable(0..entropies.values.len()).iter().map(|at| first + at));
        all.extend(features.pooled.to_vec()?);
        if sure.len() >= config.source_images {
            break;
        }
    }
    let rows = Tensor::from_vec(all.clone(), [all.len() / d, d], images.device())?;
    sure.truncate(config.source_images);
    Moments::of(&if sure.len() < 2 { rows } else { rows.gather(&sure)? })
}

impl Adapt for DpCore {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        let embedding = self.learner.source().embed(images)?;
        // 1. The batch as it is, and 2. the mix.
        let Look { plain, distance, mix, .. } = self.look(&embedding)?;
        let known = mix.filter(|mix| mix.helps);
        let (tuned, used) = if let Some(Mix { weights, prompt, .. }) = &known {
            // 3. One step on the mix.
            let tuned = self.tune(&embedding, prompt, 1)?;
            let moments = match self.config.followed {
                Followed::Prompted => &tuned.moments,
                Followed::Plain => &plain,
            };
            self.cores.follow(weights, self.config.follow, moments, self.prompt.value(0))?;
            (tuned, nearest(weights))
        } else {
            // 4. A new prompt.
            let first = self.first.clone();
            let tuned = self.tune(&embedding, &first, self.config.new_steps)?;
            let std = plain.std.as_ref().or(self.source.std.as_ref());
            let std = std.expect("source images have a deviation: there are two or more");
            self.cores.push([&plain.mean, std], &self.prompt.value(0).detach())?;
            (tuned, self.cores.len() - 1)
        };
        let allocated = known.is_none();
        let made = if allocated { vec![used] } else { Vec::new() };
        let prompt = Some(PromptUse { index: used, allocated, made, reliability: None });
        let scalars = vec![
            ("distance", f64::from(distance)),
            ("distance_prompted", f64::from(tuned.distance)),
            ("cores", self.cores.len() as f64),
        ];
        Ok(Step { logits: tuned.logits, scalars, prompt })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let look = self.look(&self.learner.source().embed(images)?)?;
        Ok(look.mix.filter(|mix| mix.helps).map_or(look.logits, |mix| mix.logits))
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("prompt", self.prompt.save());
        state.nest("cores", self.cores.save());
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.prompt.load(&state.part("prompt"))?;
        self.cores = CoreSet::load(&state.part("cores"), self.first.shape())?;
        Ok(())
    }

    fn trainable_rest(&self) -> Vec<String> {
        self.prompt.names("prompt")
    }
}

/// The place of the largest weight.
fn nearest(weights: &[f32]) -> usize {
    (0..weights.len()).fold(0, |best, at| if weights[at] > weights[best] { at } else { best })
}
