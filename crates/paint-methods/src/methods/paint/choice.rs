//! The alternatives that settings choose between, each with what the paper or the released code says.

use paint_nn::optim::{Rule, Sgd};
use serde::{Deserialize, Serialize};

/// Adam's `ε`, PyTorch's default.
const ADAM_EPS: f32 = 1e-8;

/// A set of defaults; any other key in the settings replaces one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The equations and constants as printed. The paper names no optimizer: plain gradient descent, one rate for all.
    Paper,
    /// `paper` with Adam made anew for each batch, prompts at 0.01 and blocks at 1e-4. The default: its steps have one size
    /// whatever the model, where one printed rate is right for one model only (RESULTS.md).
    #[default]
    PaperAdam,
    /// The released code with its constants for ImageNet-C.
    Reference,
    /// The released code with its constants for CIFAR10-C.
    ReferenceCifar10C,
    /// The released code with its constants for ImageNet-R.
    ReferenceImagenetR,
}

impl Preset {
    /// The names in settings.
    pub const NAMES: &'static [&'static str] =
        &["paper", "paper_adam", "reference", "reference_cifar10_c", "reference_imagenet_r"];
}

/// How gradients become updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// `−lr · g`.
    Sgd,
    /// Adam with fresh moments for each batch, `−lr · g / (|g| + 1e-8)`.
    AdamPerBatch,
}

impl OptimizerKind {
    pub(super) fn rule(self) -> Rule {
        match self {
            Self::Sgd => Rule::Sgd(Sgd::default()),
            Self::AdamPerBatch => Rule::FreshAdam { eps: ADAM_EPS },
        }
    }
}

/// How entropies and the label loss are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossForm {
    /// Shannon entropy and cross-entropy (Eq. 6 and 9).
    Shannon,
    /// The released code's, with softmax applied to probabilities once more.
    DoubleSoftmax,
}

/// When a batch asks the memory for its prompt and moves the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retrieval {
    /// Once, for all its forward passes; the key moves once, a new one not at all.
    OncePerBatch,
    /// At every forward pass, and the key moves each time. The mixed pass never allocates.
    EveryForward,
}

/// On which side of a threshold equality lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Equality does not count.
    Strict,
    /// Equality counts.
    Inclusive,
}

/// What a mean over samples is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denominator {
    /// All samples of the batch.
    Batch,
    /// The samples that took part in the forward pass at hand.
    Present,
}

/// What is mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixInput {
    /// The images as they came.
    Images,
    /// Augmented views of them.
    Views,
}

/// What of the first layer norm of block 0 stays frozen while the block trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrozenNorm {
    /// Nothing.
    None,
    /// Its scale.
    Weight,
    /// Its scale and its offset.
    All,
}
