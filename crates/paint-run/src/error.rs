//! What can go wrong with a run.

use std::path::PathBuf;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be understood.
    #[error("configuration: {why}")]
    Config {
        /// What is wrong; unknown keys are named, with the known ones.
        why: String,
    },
    /// The data layer refused.
    #[error(transparent)]
    Data(#[from] paint_data::Error),
    /// The engine refused.
    #[error(transparent)]
    Tensor(#[from] paint_tensor::Error),
    /// A model could not be made from its weights.
    #[error(transparent)]
    Model(#[from] paint_nn::Error),
    /// The weights of a file do not make the model.
    #[error("{}: {source}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: Box<paint_nn::Error>,
    },
    /// Weights that would make every prediction NaN.
    #[error(
        "weights: expected finite numbers, found NaN or infinity in {bad} of the {of} numbers of {array:?}: {}",
        path.display()
    )]
    NotFiniteWeights {
        /// The first array that has some.
        array: String,
        /// How many.
        bad: usize,
        /// Of how many.
        of: usize,
        /// The file.
        path: PathBuf,
    },
    /// Weights of a network that is known and not built here.
    #[error(
        "the weights of {network}, which is not built here; `paint list backbones` names the networks that are: {}",
        path.display()
    )]
    ForeignNetwork {
        /// What it is.
        network: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Weights of no network in the table.
    #[error(
        "no network of `paint list backbones` has these arrays; the nearest is {nearest}, but:{misfit}{}: {}",
        advice.map(|advice| format!(" if the export lost names, {advice}")).unwrap_or_default(),
        path.display()
    )]
    UnknownNetwork {
        /// The row with the fewest differences.
        nearest: &'static str,
        /// The differences.
        misfit: Box<paint_nn::Misfit>,
        /// What to do about it, if the format of the file is to blame.
        advice: Option<&'static str>,
        /// The file.
        path: PathBuf,
    },
    /// A file of arrays could not be read or written.
    #[error(transparent)]
    Arrays(#[from] paint_nn::checkpoint::Error),
    /// The method refused.
    #[error(transparent)]
    Method(#[from] paint_methods::Error),
    /// The GPU has no room for a step on a batch of this size.
    #[error("a batch of {batch} does not fit, {}: {source}", hint(*fits))]
    BatchTooLarge {
        /// Its images.
        batch: usize,
        /// A smaller batch on which a step went well; 0 if there is none.
        fits: usize,
        /// What the engine said.
        source: paint_methods::Error,
    },
    /// A method that looks at source images was not told where they are.
    #[error(
        "{why}: say where they are with --source-dataset and --source-data, or with [source] in the configuration"
    )]
    NoSource {
        /// What the method needs.
        why: String,
    },
    /// The source images are not what was asked for.
    #[error("source images: expected {expected}, found {found}: {}", path.display())]
    Source {
        /// What the configuration and the model ask for.
        expected: String,
        /// What is there.
        found: String,
        /// The dataset.
        path: PathBuf,
    },
    /// A stream without batches.
    #[error("stream: expected at least one batch, found none")]
    EmptyStream,
    /// A run measures, so it needs labels.
    #[error(
        "labels: expected one for every image, found none for image {index} of domain {domain:?}; `paint adapt` takes unlabelled images"
    )]
    Unlabelled {
        /// The domain's name.
        domain: String,
        /// The image's place in it.
        index: usize,
    },
    /// NaN or infinity where a prediction would mean nothing.
    #[error("batch {batch} (domain {domain:?}): expected finite {what}, found NaN or infinity")]
    NotFinite {
        /// `images` or `logits`.
        what: &'static str,
        /// The batch's place in the stream.
        batch: usize,
        /// Its domain.
        domain: String,
    },
    /// An image of another size than the model takes.
    #[error(
        "image size: expected {expected:?} (height, width) after preprocessing, found {found:?}"
    )]
    ImageSize {
        /// What the model takes.
        expected: [usize; 2],
        /// What came.
        found: [usize; 2],
    },
    /// Logits that do not belong to the batch or to the dataset's classes.
    #[error(
        "logits: expected shape {expected:?} (images, at least the classes of the dataset), found {found:?}"
    )]
    Logits {
        /// What the dataset asks for.
        expected: [usize; 2],
        /// What the method gave.
        found: Vec<usize>,
    },
    /// A checkpoint of another run.
    #[error("checkpoint: expected {expected}, found {found}: {}", path.display())]
    Checkpoint {
        /// What this run needs.
        expected: String,
        /// What the file holds.
        found: String,
        /// The file.
        path: PathBuf,
    },
    /// A state that another method, or the same for another model, has left.
    #[error(
        "state of another adaptation: expected {key} = {expected}, found {found}: {}",
        path.display()
    )]
    OtherState {
        /// The key of the configuration that differs.
        key: String,
        /// Its value here.
        expected: String,
        /// Its value when the state was saved.
        found: String,
        /// The file.
        path: PathBuf,
    },
    /// The method broke down.
    #[error(
        "{image}: the model gave NaN or infinity; what was learnt since the last save is not kept"
    )]
    NoPrediction {
        /// The first such image: its file, or its place in the batch.
        image: String,
    },
    /// It was asked to stop, and did.
    #[error(
        "stopped after batch {position} of {batches}, which is saved; continue with --resume: {}",
        path.display()
    )]
    Stopped {
        /// Batches done.
        position: usize,
        /// Batches of the stream.
        batches: usize,
        /// The folder of the run.
        path: PathBuf,
    },
    /// A file of results that cannot be understood.
    #[error("results: {why}: {}", path.display())]
    Results {
        /// What is wrong.
        why: String,
        /// The file.
        path: PathBuf,
    },
    /// A defect of this program, caught where it could be contained.
    #[error("panicked: {what}")]
    Panicked {
        /// Its own words.
        what: String,
    },
    /// The output folder could not be claimed.
    #[error(transparent)]
    Claim(#[from] paint_files::ClaimError),
    /// The operating system refused.
    #[error("cannot {action}: {source}: {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's own error.
        source: std::io::Error,
        /// The file concerned.
        path: PathBuf,
    },
}

fn hint(fits: usize) -> String {
    match fits {
        0 => "not even one image does".to_owned(),
        _ => format!("one of {fits} does"),
    }
}

impl Error {
    /// True if the request is wrong, as opposed to the work having failed.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Config { .. } | Self::NoSource { .. } => true,
            Self::Data(error) => error.is_usage(),
            Self::Tensor(error) => error.is_usage(),
            Self::Model(error) => error.is_usage(),
            Self::Arrays(error) => error.is_usage(),
            Self::Method(error) => error.is_usage(),
            _ => false,
        }
    }

    /// True if a file of arrays was read and is not as it was written, so that only another file helps. A sound file of
    /// another version or another kind is not damaged: it may be of use to another program.
    pub fn is_damaged_file(&self) -> bool {
        use paint_nn::checkpoint::Error as File;
        match self {
            Self::Arrays(file) | Self::Model(paint_nn::Error::File(file)) => matches!(
                file,
                File::UnknownFormat { .. } | File::Malformed { .. } | File::Damaged { .. }
            ),
            _ => false,
        }
    }

    /// A configuration that cannot be used, and why.
    pub fn config(why: impl Into<String>) -> Self {
        Self::Config { why: why.into() }
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use paint_nn::checkpoint::Error as File;

    use super::*;

    #[test]
    fn a_file_of_another_version_or_kind_is_not_damaged() {
        let path = PathBuf::from("state");
        let (expected, found) = ("version 2".to_owned(), "one of version 3".to_owned());
        let other = File::Kind { expected, found, path: path.clone() };
        assert!(!Error::Arrays(other).is_damaged_file());
        assert!(Error::Arrays(File::Damaged { path }).is_damaged_file());
    }
}
