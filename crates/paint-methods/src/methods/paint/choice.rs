//! The alternatives that settings choose between, each with what the paper or the released code does.

use paint_nn::optim::{Rule, Sgd};
use serde::{Deserialize, Serialize};

/// Adam's `ε`, PyTorch's default.
const ADAM_EPS: f32 = 1e-8;

/// A named set of defaults; every other key of the settings replaces one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The equations and constants as printed. The paper names no optimizer, so this is gradient descent with one rate.
    Paper,
    /// `paper` with Adam made anew for each batch, at 0.01 for prompts and 1e-4 for blocks. The default, because the
    /// size of its steps does not depend on the model, while the printed rate suits one model only (RESULTS.md).
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

/// The optimizer.
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

/// How `L_mi` and `L_ic` are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossForm {
    /// Shannon entropy and cross-entropy (Eq. 6 and 9).
    Shannon,
    /// As in the released code, which applies softmax to the probabilities once more.
    DoubleSoftmax,
}

/// When a batch asks the memory for its prompt, and when the key moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retrieval {
    /// Once for all its forward passes. The key moves once, or not at all if it is new.
    OncePerBatch,
    /// At every forward pass, and the key moves each time. Only the first and the last pass allocate.
    EveryForward,
}

/// Whether a value equal to a threshold counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// It does not.
    Strict,
    /// It does.
    Inclusive,
}

/// What a mean over samples is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denominator {
    /// All samples of the batch.
    Batch,
    /// The samples of the forward pass in question.
    Present,
}

/// What is mixed in pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixInput {
    /// The images as they are.
    Images,
    /// Augmented views of them.
    Views,
}

/// Which parameters of the first layer norm of block 0 stay frozen while the block trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrozenNorm {
    /// None of them.
    None,
    /// Its scale.
    Weight,
    /// Its scale and its offset.
    All,
}
