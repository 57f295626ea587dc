//! The alternatives that settings choose between, each with what the paper or the released code does.

use paint_nn::optim::{Rule, Sgd};
use paint_settings::choice;

/// Adam's `ε`, PyTorch's default.
const ADAM_EPS: f32 = 1e-8;

choice! {
    /// A named set of defaults; every other key of the settings replaces one of them.
    #[derive(Default)]
    pub enum Preset {
        /// The equations and constants as printed. The paper names no optimizer, so this is gradient descent with one
        /// rate.
        Paper = "paper",
        /// `paper` with Adam made anew for each batch, at 0.01 for prompts and 1e-4 for blocks. The default, because
        /// the size of its steps does not depend on the model, while the printed rate suits one model only
        /// (RESULTS.md).
        #[default]
        PaperAdam = "paper_adam",
        /// The released code with its constants for ImageNet-C.
        Reference = "reference",
        /// The released code with its constants for CIFAR10-C.
        ReferenceCifar10C = "reference_cifar10_c",
        /// The released code with its constants for ImageNet-R.
        ReferenceImagenetR = "reference_imagenet_r",
        /// `paper_adam` with standardised keys, a relative threshold and at most 32 prompts: ours. Needs source
        /// statistics.
        Standardised = "standardised",
    }
}

impl Preset {
    /// The names in settings.
    pub const NAMES: &'static [&'static str] = &[
        "paper",
        "paper_adam",
        "reference",
        "reference_cifar10_c",
        "reference_imagenet_r",
        "standardised",
    ];
}

choice! {
    /// The optimizer.
    pub enum OptimizerKind {
        /// `−lr · g`.
        Sgd = "sgd",
        /// Adam with fresh moments for each batch, `−lr · g / (|g| + 1e-8)`.
        AdamPerBatch = "adam_per_batch",
    }
}

impl OptimizerKind {
    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Sgd => Rule::Sgd(Sgd::default()),
            Self::AdamPerBatch => Rule::FreshAdam { eps: ADAM_EPS },
        }
    }
}

choice! {
    /// How `L_mi` and `L_ic` are computed.
    pub enum LossForm {
        /// Shannon entropy and cross-entropy (Eq. 6 and 9).
        Shannon = "shannon",
        /// As in the released code, which applies softmax to the probabilities once more.
        DoubleSoftmax = "double_softmax",
    }
}

choice! {
    /// When a batch asks the memory for its prompt, and when the key moves.
    pub enum Retrieval {
        /// Once for all its forward passes. The key moves once, or not at all if it is new.
        OncePerBatch = "once_per_batch",
        /// At every forward pass, and the key moves each time. Only the first and the last pass allocate.
        EveryForward = "every_forward",
    }
}

choice! {
    /// Whether a value equal to a threshold counts.
    pub enum Bound {
        /// It does not.
        Strict = "strict",
        /// It does.
        Inclusive = "inclusive",
    }
}

choice! {
    /// What a mean over samples is divided by.
    pub enum Denominator {
        /// All samples of the batch.
        Batch = "batch",
        /// The samples of the forward pass in question.
        Present = "present",
    }
}

choice! {
    /// What is mixed in pairs.
    pub enum MixInput {
        /// The images as they are.
        Images = "images",
        /// Augmented views of them.
        Views = "views",
    }
}

choice! {
    /// Which parameters of the first layer norm of block 0 stay frozen while the block trains.
    pub enum FrozenNorm {
        /// None of them.
        None = "none",
        /// Its scale.
        Weight = "weight",
        /// Its scale and its offset.
        All = "all",
    }
}

choice! {
    /// What domains are told apart by.
    #[derive(Default)]
    pub enum Keys {
        /// The features of the source as they are (Eq. 2).
        #[default]
        Raw = "raw",
        /// The same with the style of block 0, in clean deviations and whitened (`statistics/query.rs`): what all
        /// images share no longer hides what a domain changes (ours).
        Standardised = "standardised",
    }
}

impl Keys {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    pub(super) fn is_raw(&self) -> bool {
        *self == Self::Raw
    }
}

choice! {
    /// What `η` is measured in.
    #[derive(Default)]
    pub enum Threshold {
        /// A cosine (Eq. 5).
        #[default]
        Absolute = "absolute",
        /// The distance that chance gives a batch of the prompt's own domain: 1/5 allows four standard deviations
        /// (ours).
        Relative = "relative",
    }
}

impl Threshold {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    pub(super) fn is_absolute(&self) -> bool {
        *self == Self::Absolute
    }
}
