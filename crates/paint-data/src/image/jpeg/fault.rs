//! What can be wrong inside a JPEG, as the noun that follows "found" in the error of the file.

/// Why a file was not decoded, or what was read over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::image) enum Fault {
    #[error("the end of the data within {0}")]
    Ends(&'static str),
    #[error("a damaged {0}")]
    Damaged(&'static str),
    #[error("{0}, which is not supported")]
    Unsupported(&'static str),
    #[error("no {0}")]
    Missing(&'static str),
    #[error("a restart marker missing or out of order")]
    Restart,
    #[error("scans over {work} coefficients, more than the {limit} allowed for {bytes} bytes")]
    TooMuchWork { work: usize, limit: usize, bytes: usize },
    #[error("more than {0} scans")]
    TooManyScans(usize),
    #[error(
        "{blocks} blocks in the frame header and {bytes} bytes after it, which cannot hold them"
    )]
    TooManyBlocks { blocks: usize, bytes: usize },
}

/// The result of a step inside the decoder.
pub(super) type Outcome<T> = std::result::Result<T, Fault>;
