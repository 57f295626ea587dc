//! The errors of this crate.

/// What can go wrong with tensors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tensor has the wrong shape.
    #[error("{what}: expected shape {expected}, got {got:?}")]
    Shape {
        /// The operation or argument.
        what: &'static str,
        /// The shape that would fit, in words or numbers.
        expected: String,
        /// The shape that was given.
        got: Vec<usize>,
    },
    /// A shape has more elements than memory could hold.
    #[error("{what}: shape {shape:?} has more elements than memory can hold")]
    TooLarge {
        /// The operation or argument.
        what: &'static str,
        /// The shape.
        shape: Vec<usize>,
    },
    /// An index or axis is out of range.
    #[error("{what}: index {index} is out of range, the size is {size}")]
    Index {
        /// The operation.
        what: &'static str,
        /// The index that was given.
        index: usize,
        /// The number of valid indices.
        size: usize,
    },
    /// A gradient was requested through an operation that has none.
    #[error(
        "{op} has no gradient, but its input is tracked: detach() the input or keep {op} off this path"
    )]
    NoGradient {
        /// The operation.
        op: &'static str,
    },
    /// `backward` was called where no gradient can start.
    #[error(
        "backward needs a tracked tensor with one element, got shape {shape:?}, tracked: {tracked}"
    )]
    BackwardStart {
        /// The shape of the tensor.
        shape: Vec<usize>,
        /// Whether any variable lies below it.
        tracked: bool,
    },
    /// `backward` reached an operation that an earlier pass has been through.
    #[error(
        "an earlier backward pass went through these operations and freed what they had saved: run the forward pass \
         again, or add the losses and call backward once"
    )]
    BackwardTwice,
    /// Two tensors of one operation live on different devices.
    #[error("{op}: the inputs are on different devices ({left} and {right})")]
    DeviceMismatch {
        /// The operation.
        op: &'static str,
        /// The device of the first input.
        left: String,
        /// The device of the other input.
        right: String,
    },
    /// A GPU has no memory left for the next tensor.
    #[error(
        "the GPU is out of memory: a tensor needs {} MiB, {} of {} MiB are in use",
        wanted >> 20, used >> 20, total >> 20
    )]
    OutOfMemory {
        /// Bytes of the tensor.
        wanted: usize,
        /// Bytes that tensors hold already.
        used: usize,
        /// Bytes of the GPU.
        total: usize,
    },
    /// A GPU or one of its libraries failed.
    #[error("GPU: {what}: {why}")]
    Gpu {
        /// What was being done.
        what: String,
        /// What came back.
        why: String,
    },
    /// A precision was named that does not exist.
    #[error("unknown precision {name:?}: expected one of {known}")]
    Precision {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A device was named that this build or machine does not have.
    #[error("device {name:?}: {why}")]
    Device {
        /// The name that was given.
        name: String,
        /// What is there, and what to do.
        why: String,
    },
}

impl Error {
    /// True if the request names a device or a precision that is not there.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Device { .. } | Self::Precision { .. })
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
