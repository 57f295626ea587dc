//! What can go wrong with a training.

use std::path::PathBuf;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe cannot be understood or makes no sense.
    #[error("recipe: {why}")]
    Recipe {
        /// What is wrong; keys are named.
        why: String,
    },
    /// The images are not what a training needs.
    #[error("training images: expected {expected}, found {found}")]
    Images {
        /// What would do.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A parameter that no gradient reached: the network would not train.
    #[error("parameter {name:?}: expected a gradient, found none")]
    NoGradient {
        /// Its name.
        name: String,
    },
    /// The loss is NaN or infinite.
    #[error(
        "loss: expected a finite number, found {loss} before step {step}; a smaller learning rate (lr) or clipping (clip) helps"
    )]
    Diverged {
        /// What was found.
        loss: f64,
        /// The steps done when it was looked at.
        step: usize,
    },
    /// A folder that holds another training.
    #[error("{} holds an earlier training: continue it with --resume, or begin anew with --overwrite", path.display())]
    Earlier {
        /// The folder.
        path: PathBuf,
    },
    /// The output folder could not be claimed.
    #[error(transparent)]
    Claim(#[from] paint_files::ClaimError),
    /// A checkpoint is damaged or belongs to another training.
    #[error("checkpoint: expected {expected}, found {found}: {}", path.display())]
    Checkpoint {
        /// What this training needs.
        expected: String,
        /// What is there.
        found: String,
        /// The file.
        path: PathBuf,
    },
    /// It was asked to stop, and did.
    #[error(
        "stopped after {epochs} epochs and {steps} steps, which are saved; continue with --resume: {}",
        path.display()
    )]
    Stopped {
        /// Epochs done.
        epochs: usize,
        /// Steps of the next one.
        steps: usize,
        /// The folder.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot {action}: {source}: {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
        /// The file or folder.
        path: PathBuf,
    },
    /// The data layer refused.
    #[error(transparent)]
    Data(#[from] paint_data::Error),
    /// The engine refused.
    #[error(transparent)]
    Tensor(#[from] paint_tensor::Error),
    /// The network refused.
    #[error(transparent)]
    Model(#[from] paint_nn::Error),
    /// A file of arrays could not be read or written.
    #[error(transparent)]
    Arrays(#[from] paint_nn::checkpoint::Error),
}

impl Error {
    pub(crate) fn recipe(why: impl Into<String>) -> Self {
        Self::Recipe { why: why.into() }
    }

    /// True if the request is wrong, as opposed to the work having failed.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Recipe { .. } | Self::Earlier { .. } => true,
            Self::Data(error) => error.is_usage(),
            Self::Tensor(error) => error.is_usage(),
            Self::Model(error) => error.is_usage(),
            Self::Arrays(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
