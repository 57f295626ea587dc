//! The settings of PAINT: every point on which the paper and the released code differ is a key.

use paint_nn::backbone::{Pooling, PromptPosition};
use paint_nn::params::{Part, Role, Slot, Trainable};
use paint_nn::prompt::{self, PromptConfig};
use paint_settings::{above, at_least, between, linear, logarithmic, settings};

use super::choice::{
    Bound, Denominator, FrozenNorm, Keys, LossForm, MixInput, OptimizerKind, Preset, Retrieval,
    Threshold,
};
use crate::Result;
use crate::settings::{Settings, read_with};

/// The method's name.
pub(super) const NAME: &str = "paint";

/// The longest prompt, several times the tokens of an image: the cost of attention grows with the square.
const LONGEST: f64 = 1024.0;

settings! {
    /// The settings of PAINT. Rates, weights and thresholds are `f64`, so that they print as they were written. `D`
    /// and a number name a row of the table under [*Fidelity*](super#fidelity).
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `L_p`, the number of prompt tokens; 0 adapts without prompts and memory (D16).
        #[within(between(0.0, LONGEST))]
        pub prompt_length: usize,
        /// The standard deviation of a new prompt's normal values (D18).
        #[within(at_least(0.0))]
        pub prompt_std: f64,
        /// The position embedding of prompt tokens (D15).
        pub prompt_position: PromptPosition,
        /// What the classifier reads (D14).
        pub pooling: Pooling,
        /// What domains are told apart by; not written where it is the paper's.
        #[serde(default, skip_serializing_if = "Keys::is_raw")]
        pub keys: Keys,
        /// What `eta` is measured in; not written where it is the paper's.
        #[serde(default, skip_serializing_if = "Threshold::is_absolute")]
        pub threshold: Threshold,
        /// `η`, the reliability below which a prompt is allocated (Eq. 5). Depends on the model (D11).
        #[within(between(-1.0, 1.0))]
        #[tuned(linear(0.0, 0.8))]
        pub eta: f64,
        /// Whether `r_s = η` allocates (D11).
        pub eta_bound: Bound,
        /// What the sum in `r_s` (Eq. 4) is divided by; matters only with `retrieval = "every_forward"` (D13).
        pub reliability: Denominator,
        /// When a batch asks the memory (D12).
        pub retrieval: Retrieval,
        /// One more retrieval before mixing, which moves the key; only with `retrieval = "every_forward"` (D22).
        pub redundant_forward: bool,
        /// `γ`, smoothing of the keys (Eq. 11).
        #[within(between(0.0, 1.0))]
        pub gamma: f64,
        /// The largest number of prompts; beyond it the two with the nearest keys are merged (ours). No bound if not
        /// given (D19).
        #[within(at_least(2.0))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub capacity: Option<usize>,
        /// Takes the prompt of the true domain, which the runner must provide (the paper's oracle).
        pub oracle: bool,
        /// How `L_mi` and `L_ic` are computed (D4).
        pub loss: LossForm,
        /// Weight of the mean entropy, the first term of Eq. 6 (D5).
        #[within(at_least(0.0))]
        pub entropy_weight: f64,
        /// Weight of the entropy of the mean, the second term of Eq. 6 (D5). With 0 the loss is the entropy alone, as
        /// in the first row of the ablation table.
        #[within(at_least(0.0))]
        pub diversity_weight: f64,
        /// `β`, weight of the interpolation consistency in Eq. 10; 0 mixes nothing (D5).
        #[within(at_least(0.0))]
        pub beta: f64,
        /// What `L_ic` (Eq. 9) is divided by (D10).
        pub consistency_denominator: Denominator,
        /// `α` of `λ ~ Beta(α, α)` in Eq. 8 (D6).
        #[within(above(0.0))]
        pub alpha: f64,
        /// `φ`, the confidence above which a sample gets a pseudo label (Eq. 7, D7).
        #[within(between(0.0, 1.0))]
        pub phi: f64,
        /// Whether a confidence of exactly `φ` is enough (D7).
        pub phi_bound: Bound,
        /// The largest probability that the second-best class may have; 1 sets no condition (D7).
        #[within(between(0.0, 1.0))]
        pub phi_second: f64,
        /// What is mixed (D8).
        pub mix: MixInput,
        /// The optimizer (D1).
        pub optimizer: OptimizerKind,
        /// Learning rate of the prompts, and of the class token if it trains (D2).
        #[within(at_least(0.0))]
        pub lr_prompts: f64,
        /// Learning rate of the blocks (D2).
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr_blocks: f64,
        /// How many blocks train, from the first on; 0 for none (D3).
        pub blocks: usize,
        /// Which parameters of block 0's first norm stay frozen (D3).
        pub frozen_norm: FrozenNorm,
        /// Whether the class token trains (D3).
        pub train_cls_token: bool,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let paper = Self {
            preset,
            prompt_length: 2,
            prompt_std: 1.0,
            prompt_position: PromptPosition::None,
            pooling: Pooling::Cls,
            keys: Keys::Raw,
            threshold: Threshold::Absolute,
            eta: 0.2,
            eta_bound: Bound::Strict,
            reliability: Denominator::Batch,
            retrieval: Retrieval::OncePerBatch,
            redundant_forward: false,
            gamma: 0.8,
            capacity: None,
            oracle: false,
            loss: LossForm::Shannon,
            entropy_weight: 1.0,
            diversity_weight: 1.0,
            beta: 1.0,
            consistency_denominator: Denominator::Batch,
            alpha: 1.0,
            phi: 0.6,
            phi_bound: Bound::Strict,
            phi_second: 1.0,
            mix: MixInput::Images,
            optimizer: OptimizerKind::Sgd,
            lr_prompts: 0.05,
            lr_blocks: 0.05,
            blocks: 3,
            frozen_norm: FrozenNorm::None,
            train_cls_token: false,
        };
        let optimizer = OptimizerKind::AdamPerBatch;
        let adam = Self { optimizer, lr_prompts: 0.01, lr_blocks: 1e-4, ..paper.clone() };
        let reference = Self {
            prompt_position: PromptPosition::Cls,
            pooling: Pooling::ClsAndPrompts,
            eta_bound: Bound::Inclusive,
            reliability: Denominator::Present,
            retrieval: Retrieval::EveryForward,
            loss: LossForm::DoubleSoftmax,
            consistency_denominator: Denominator::Present,
            alpha: 0.5,
            phi_bound: Bound::Inclusive,
            phi_second: 0.3,
            mix: MixInput::Views,
            optimizer,
            lr_prompts: 0.075,
            lr_blocks: 2.5e-6,
            frozen_norm: FrozenNorm::All,
            ..paper.clone()
        };
        match preset {
            Preset::Paper => paper,
            Preset::PaperAdam => adam,
            Preset::Standardised => Self {
                keys: Keys::Standardised,
                threshold: Threshold::Relative,
                eta: 0.2,
                capacity: Some(32),
                ..adam
            },
            Preset::Reference => reference,
            Preset::ReferenceCifar10C => Self {
                prompt_length: 3,
                eta: 0.5,
                alpha: 0.1,
                phi: 0.7,
                phi_second: 0.1,
                lr_prompts: 0.05,
                lr_blocks: 1e-5,
                frozen_norm: FrozenNorm::Weight,
                train_cls_token: true,
                ..reference
            },
            Preset::ReferenceImagenetR => Self {
                redundant_forward: true,
                entropy_weight: 0.2,
                alpha: 0.1,
                phi: 0.8,
                phi_second: 0.1,
                mix: MixInput::Images,
                lr_prompts: 0.05,
                lr_blocks: 1.5e-5,
                blocks: 4,
                frozen_norm: FrozenNorm::None,
                ..reference
            },
        }
    }

    /// The conditions that valid settings meet, each with the message for settings that do not.
    fn rules(&self) -> Vec<(bool, &'static str)> {
        vec![
            (
                self.prompt_length > 0 || self.blocks > 0 || self.train_cls_token,
                "nothing would train: prompt_length and blocks are both 0",
            ),
            (
                !self.oracle || self.prompt_length > 0,
                "the oracle chooses prompts, and prompt_length is 0",
            ),
        ]
    }

    /// The settings of the memory, for a model of width `width`.
    pub(super) fn memory(&self, width: usize) -> PromptConfig {
        PromptConfig {
            length: self.prompt_length,
            width,
            eta: self.eta as f32,
            scale: match self.threshold {
                Threshold::Absolute => prompt::Scale::Absolute,
                Threshold::Relative => prompt::Scale::Relative,
            },
            threshold: match self.eta_bound {
                Bound::Strict => prompt::Threshold::Below,
                Bound::Inclusive => prompt::Threshold::AtOrBelow,
            },
            reliability: match self.reliability {
                Denominator::Batch => prompt::Reliability::OverQueries,
                Denominator::Present => prompt::Reliability::OverImages,
            },
            gamma: self.gamma as f32,
            capacity: self.capacity,
        }
    }

    /// All parameters of the model that train; prompts are not the model's.
    pub(super) fn trained(&self) -> Trainable {
        Trainable::Any(vec![self.trained_blocks(), self.trained_with_prompts()])
    }

    /// What trains at the blocks' rate.
    pub(super) fn trained_blocks(&self) -> Trainable {
        let norm1 = |slot| Trainable::Only(Role::Block { index: 0, part: Part::Norm1, slot });
        let frozen = match self.frozen_norm {
            FrozenNorm::None => vec![],
            FrozenNorm::Weight => vec![norm1(Slot::Weight)],
            FrozenNorm::All => vec![norm1(Slot::Weight), norm1(Slot::Bias)],
        };
        Trainable::Blocks(0..self.blocks).except(Trainable::Any(frozen))
    }

    /// What trains at the prompts' rate: the prompts, and the class token where it trains.
    pub(super) fn trained_with_prompts(&self) -> Trainable {
        let cls = self.train_cls_token.then_some(Trainable::Only(Role::ClsToken));
        Trainable::Any([Trainable::Prompt].into_iter().chain(cls).collect())
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
        read_with(NAME, settings, Self::preset, Self::rules)
    }
}
