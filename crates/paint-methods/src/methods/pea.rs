//! PEA: progressive embedding alignment, block by block and without gradients (ICLR 2026).
//!
//! A corruption shifts, scales and turns what every block gives. The network stays frozen; after each block its output
//! is moved towards the mean and covariance that the block has on source images, the farther the more that block is
//! off. Two forward passes: the first finds out how far each block is off, the second aligns.
//!
//! Symbols: `F` what block `l` gives, one row a token (a pixel of a convolutional network), `C` channels; `μ_s`, `Σ_s`
//! mean and covariance of the rows on source images, `μ_t`, `Σ_t` on the stream so far, `μ_b`, `Σ_b` in the batch; `m`
//! momentum. For each batch:
//!
//! 1. Plainly: `d_l = ‖μ_s - μ‖ + ‖var_s - var‖`, `μ` and `var` those of the class tokens; `w_l` is `d_l` between the
//!    least (0) and the largest (1) of all blocks.
//! 2. Again, block after block: `μ_t ← μ_t + m (μ_b - μ_t)`, `Σ_t` alike with a ridge `ε I`. Where the mean distance of
//!    the channels of `μ_b` and `μ_t` is more than `γ` times its smoothed value, the batch takes over, `m = 1`.
//! 3. `Y = (F - μ_t) Σ_t^(-½) Σ_s^½ + μ_s`.
//! 4. `F ← F + w_l (Y - F)`, which the next block reads.
//! 5. All this for the image, its middle enlarged and its mirror image; the prediction is the mean of their logits.
//!    Where its mean entropy is more than `threshold` above its smoothed value, the statistics of the stream are
//!    forgotten.
//!
//! # Fidelity
//! - Values are those of the authors' repository for both kinds of networks: `m = 0.02`, `γ = 4`, smoothing 0.2,
//!   `threshold = 1`, `ε = 1e-5`, two views beside the image, a crop of 0.9. Covariances are whole for a transformer,
//!   and by groups of 32 channels for a residual network (`group_size`).
//! - `compared`: the authors compare the *class tokens* of a batch with statistics of *all tokens* of the source,
//!   `cls`, the default; `tokens` compares all with all. A network without a class token always does that.
//! - Roots come from eigenvalues, as the authors', in double precision on the CPU. That takes `O(C³)` for each block
//!   and view of a batch; for a wide network `group_size = 64` is the remedy.
//! - The source's covariance is that of all rows; the authors add up those of batches around their own means.
//! - Images may have another mean than the source in every view; statistics follow each view in turn, as the authors'.
//! - A prediction without adaptation aligns with the statistics so far, and leaves a block without any alone.
//! - Batch norms use the statistics of training, as the authors' do.

mod align;
mod running;
mod views;

use std::cell::RefCell;
use std::sync::Arc;

use paint_nn::backbone::{BnMode, LastBlock, Request};
use paint_nn::loss;
use paint_settings::{
    Describe as _, above, above_to, at_least, between, choice, linear, logarithmic, settings,
};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::Learner;
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use crate::statistics::activations;
use align::{Aligner, Source, Survey};
use running::Running;

const NAME: &str = "pea";

choice! {
    /// What the first pass compares with the source.
    pub enum Compared {
        /// The class tokens of the batch.
        Cls = "cls",
        /// All its tokens.
        Tokens = "tokens",
    }
}

settings! {
    /// The settings of PEA.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `m`, the share of a batch in the statistics of the stream.
        #[within(between(0.0, 1.0))]
        #[tuned(logarithmic(0.01, 1.0))]
        pub momentum: f64,
        /// `γ`: a drift of so many times its smoothed value is a new domain.
        #[within(at_least(0.0))]
        pub jump: f64,
        /// By how much the entropy jumps, in nats, where everything is forgotten.
        #[within(at_least(0.0))]
        pub threshold: f64,
        /// `ε`, what is added to variances, and the least that an eigenvalue counts for.
        #[within(above(0.0))]
        #[tuned(logarithmic(1e-6, 1e-1))]
        pub ridge: f64,
        /// Channels whose covariance is aligned together.
        #[within(at_least(1.0))]
        pub group_size: usize,
        /// What the first pass compares with the source.
        pub compared: Compared,
        /// Views beside the image: none, its enlarged middle, or that and its mirror image.
        #[within(between(0.0, 2.0))]
        pub views: usize,
        /// The share of each side that the enlarged middle shows.
        #[within(above_to(0.0, 1.0))]
        #[tuned(linear(0.7, 1.0))]
        pub crop: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let group_size = match preset {
            Preset::VitImagenet | Preset::VitCifar10 => 768,
            Preset::CnnImagenet | Preset::CnnCifar10 => 32,
        };
        Self {
            preset,
            momentum: 0.02,
            jump: 4.0,
            threshold: 1.0,
            ridge: 1e-5,
            group_size,
            compared: Compared::Cls,
            views: 2,
            crop: 0.9,
        }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "PEA, ICLR 2026",
    what: "moves what each block gives to the source's mean and covariance; no gradients",
    needs_source: SourceNeed::Unlabelled,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Pea::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Pea {
    config: Config,
    learner: Learner,
    sources: Arc<[Source]>,
    running: Running,
}

impl Pea {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let learner = Learner::frozen(args).with_batch_norm(BnMode::Running);
        let moments = activations::collect(learner.source(), args.unlabelled(NAME)?)?;
        let sources: Arc<[Source]> =
            moments.iter().map(|moments| Source::new(moments, &config)).collect();
        let running = Running::new(sources.len());
        Ok(Self { config, learner, sources, running })
    }

    /// Both passes for a batch: the mean logits of its views, and the mean weight of the blocks.
    fn aligned(
        &self,
        images: &Tensor,
        running: &mut Running,
        learns: bool,
    ) -> Result<(Tensor, f64)> {
        let model = self.learner.source();
        let views = views::views(images, self.config.views, self.config.crop)?;
        let views: Vec<Tensor> =
            views.iter().map(|view| model.embed(view)).collect::<paint_nn::Result<_>>()?;
        // 1. How far each block is off.
        let survey = Survey::new(self.config.compared);
        for view in &views {
            let request = Request { after_block: Some(&survey), ..self.learner.request() };
            model.forward_embedded(view, &Request { last_block: LastBlock::Whole, ..request })?;
        }
        let weights = survey.weights(&self.sources);
        // 2. to 4. The aligned pass.
        let aligner = Aligner {
            sources: &self.sources,
            config: &self.config,
            weights: &weights,
            running: RefCell::new(running),
            learns,
        };
        let mut logits = Vec::with_capacity(views.len());
        for view in &views {
            let request = Request { after_block: Some(&aligner), ..self.learner.request() };
            let request = Request { last_block: LastBlock::Whole, ..request };
            logits.push(model.forward_embedded(view, &request)?.logits);
        }
        // 5. The mean of the views.
        let mut sum = logits[0].clone();
        for view in &logits[1..] {
            sum = sum.add(view)?;
        }
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        Ok((sum.scale(1.0 / logits.len() as f32)?, mean))
    }
}

impl Adapt for Pea {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        let mut running = self.running.clone();
        let (logits, weight) = self.aligned(images, &mut running, true)?;
        let entropy =
            self.learner.finite("the mean entropy", loss::mean_entropy(&logits)?.item()?)?;
        let forgot = running.judge(entropy, self.config.threshold);
        self.running = running;
        let scalars = vec![
            ("weight", weight),
            ("entropy", f64::from(entropy)),
            ("forgot", f64::from(u8::from(forgot))),
        ];
        Ok(Step { logits, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.aligned(images, &mut self.running.clone(), false)?.0)
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("running", self.running.save()?);
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        let widths: Vec<usize> = self.sources.iter().map(Source::width).collect();
        self.running = Running::load(&state.part("running"), &widths)?;
        Ok(())
    }
}
