//! VDP: visual domain prompts (Gan et al. 2023), in **our reading of the paper**: its code was never published.
//!
//! The network stays frozen. Two prompts, images that are added to every input, carry the adaptation: one belongs to
//! the current domain and starts anew with each domain, the other is kept across domains and learns slowly.
//! Homeostasis holds those pixels of the kept prompt that earlier domains were sensitive to. Pseudo labels come from
//! the moving averages of the prompts. The prediction is made with the updated prompts.
//!
//! Symbols: `f` the frozen network, `δ_s` the prompt of the domain, `δ_a` the kept prompt, both `[3, H, W]`, `δ'`
//! their moving averages, `m` the momentum of these, `φ` the confidence threshold, `g` the gradient of the
//! pseudo-label loss at `δ_a`, `Ω` the importance of each pixel, `δ*` the kept prompt at the end of the last domain,
//! `λ` the weight of homeostasis. For each batch:
//!
//! 1. If a new domain begins: `δ_s = δ'_s = 0` with a fresh optimizer; `Ω ← Ω + mean_t(g²) / mean_j(mean_t(g²))` over
//!    the steps of the domain that ended; `δ* = δ_a`.
//! 2. `p = softmax(f(x + δ'_s + δ'_a))`, `y_i = argmax p_i`; a sample is confident if `max p_i ≥ φ`.
//! 3. `L` = mean of `CE(f(x + δ_s + δ_a), y)` over the confident samples, plus `λ Σ_j Ω_j (δ_a − δ*)_j²`.
//! 4. One step on both prompts, each with its own rate.
//! 5. `δ' ← m δ' + (1 − m) δ`.
//! 6. The prediction: `f(x + δ_s + δ_a)`.
//!
//! # Fidelity
//! - The paper's abstract and introduction fix the frozen network, the two prompts in pixel space, pseudo labels from
//!   a teacher, and the damping of what domains are sensitive to. Everything else is our choice: prompts that cover
//!   the image and begin at 0, hard pseudo labels (soft ones of a teacher that begins as its student have no
//!   gradient), the form of `Ω`, and all values, which are the same for all presets.
//! - The paper knows where a domain begins, and so does this method if the caller says so. Without that there is one
//!   domain without end, and homeostasis never starts.
//! - Prompted pixels may leave [0, 1].

mod homeostasis;

use paint_nn::loss;
use paint_nn::params::{Params, Role, Trainable};
use paint_settings::{Describe as _, at_least, between, linear, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::attached::Attached;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::mean_of;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use homeostasis::Homeostasis;

const NAME: &str = "vdp";

settings! {
    /// The settings of VDP.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// Accepted as by every baseline; the values are the same for all presets.
        pub preset: Preset,
        /// `φ`, the confidence from which a sample gets a pseudo label.
        #[within(at_least(0.0))]
        #[tuned(linear(0.5, 1.0))]
        pub threshold: f64,
        /// `m`, the momentum of the prompts' moving averages.
        #[within(between(0.0, 1.0))]
        pub momentum: f64,
        /// `λ`, the weight of homeostasis.
        #[within(at_least(0.0))]
        pub homeostasis: f64,
        /// The optimizer of both prompts.
        pub optimizer: Descent,
        /// The learning rate of `δ_s`, the prompt of the domain.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
        /// The learning rate of `δ_a`, the prompt that is kept across domains, as a share of `lr`.
        #[within(between(0.0, 1.0))]
        pub agnostic_share: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self {
            preset,
            threshold: 0.9,
            momentum: 0.9,
            homeostasis: 1.0,
            optimizer: Descent::Adam,
            lr: 1e-3,
            agnostic_share: 0.1,
        }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2212.04145",
    what: "two prompts in pixel space before a frozen network, one per domain and one for all (our reading)",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Vdp::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

/// A prompt `δ` and its moving average `δ'`.
#[derive(Clone)]
struct Prompt {
    pixels: Attached,
    average: Tensor,
}

impl Prompt {
    /// Zeros of `[3, H, W]`.
    fn new(learner: &Learner, optimizer: Descent, lr: f64) -> Result<Self> {
        let [h, w] = learner.spec().image_size;
        let zeros = Tensor::zeros([3, h, w], &learner.device())?;
        let mut params = Params::default();
        params.insert("pixels", Role::Prompt, zeros.clone())?;
        let pixels = Attached::new(params, optimizer.optimizer(Trainable::All, lr));
        Ok(Self { pixels, average: zeros })
    }

    /// `δ`.
    fn pixels(&self) -> &Tensor {
        self.pixels.value(0)
    }

    fn save(&self) -> State {
        let mut state = self.pixels.save();
        state.tensors.insert("average".into(), self.average.clone());
        state
    }

    fn load(&mut self, state: &State) -> Result<()> {
        self.average = state.tensor("average")?.clone();
        self.pixels.load(state)
    }
}

#[derive(Clone)]
struct Vdp {
    config: Config,
    learner: Learner,
    specific: Prompt,
    agnostic: Prompt,
    homeostasis: Homeostasis,
    /// The domain of the last batch.
    domain: Option<usize>,
    /// The domain of the next one, if the caller knows it.
    next_domain: Option<usize>,
}

impl Vdp {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let learner = Learner::frozen(args);
        let specific = Prompt::new(&learner, config.optimizer, config.lr)?;
        let share = config.lr * config.agnostic_share;
        let agnostic = Prompt::new(&learner, config.optimizer, share)?;
        let homeostasis = Homeostasis::new(agnostic.pixels())?;
        Ok(Self {
            config,
            learner,
            specific,
            agnostic,
            homeostasis,
            domain: None,
            next_domain: None,
        })
    }

    /// `f(x + δ_s + δ_a)`.
    fn prompted(&self, images: &Tensor, specific: &Tensor, agnostic: &Tensor) -> Result<Tensor> {
        self.learner.logits(&images.add(&specific.add(agnostic)?)?)
    }

    /// Step 1.
    fn begin_domain(&mut self) -> Result<()> {
        if let (Some(next), Some(domain)) = (self.next_domain, self.domain)
            && next != domain
        {
            self.specific = Prompt::new(&self.learner, self.config.optimizer, self.config.lr)?;
            self.homeostasis.consolidate(self.agnostic.pixels())?;
        }
        self.domain = self.next_domain.or(self.domain);
        Ok(())
    }
}

impl Adapt for Vdp {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. A new domain.
        self.begin_domain()?;
        // 2. Pseudo labels.
        let p = self.prompted(images, &self.specific.average, &self.agnostic.average)?.softmax()?;
        let labels = p.argmax()?;
        let is_confident = |p: &f32| f64::from(*p) >= self.config.threshold;
        let confidence = p.pick(&labels)?.to_vec()?;
        let confident: Vec<usize> =
            (0..labels.len()).filter(|&i| is_confident(&confidence[i])).collect();
        // 3. The losses.
        self.specific.pixels.track();
        self.agnostic.pixels.track();
        let z = self.prompted(images, self.specific.pixels(), self.agnostic.pixels())?;
        let labelled = mean_of(&loss::cross_entropy(&z, &labels)?, &confident)?;
        let held = self.homeostasis.penalty(self.agnostic.pixels())?;
        let loss = labelled.add(&held.scale(self.config.homeostasis as f32)?)?;
        let value = self.learner.finite("the loss", loss.item()?)?;
        let gradients = loss.backward()?;
        // Both prompts are added to the same pixels, so their gradients of the pseudo-label loss are equal; the penalty
        // reaches the kept prompt only.
        if let Some(g) = gradients.get(self.specific.pixels()) {
            self.homeostasis.observe(&g.detach())?;
        }
        // 4. One step, and 5. the averages.
        for prompt in [&mut self.specific, &mut self.agnostic] {
            prompt.pixels.update(&gradients, &self.learner)?;
            let keep = self.config.momentum as f32;
            prompt.average = prompt.average.lerp(prompt.pixels(), 1.0 - keep)?;
        }
        // 6. The prediction.
        let logits = self.predict(images)?;
        let scalars = vec![("loss", f64::from(value)), ("confident", confident.len() as f64)];
        Ok(Step { logits, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.prompted(images, self.specific.pixels(), self.agnostic.pixels())
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("specific", self.specific.save());
        state.nest("agnostic", self.agnostic.save());
        state.nest("homeostasis", self.homeostasis.save());
        if let Some(domain) = self.domain {
            state.counters.insert("domain".into(), domain as u64);
        }
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.specific.load(&state.part("specific"))?;
        self.agnostic.load(&state.part("agnostic"))?;
        self.homeostasis.load(&state.part("homeostasis"))?;
        self.domain = state.counters.get("domain").map(|&domain| domain as usize);
        Ok(())
    }

    fn trainable_rest(&self) -> Vec<String> {
        let mut names = self.specific.pixels.names("specific");
        names.extend(self.agnostic.pixels.names("agnostic"));
        names
    }

    fn set_domain(&mut self, domain: Option<usize>) {
        self.next_domain = domain;
    }
}
