//! Exceptions: one for each kind of error, all with the library's messages.

use paint_tta::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    paint_tta,
    Error,
    PyException,
    "What every exception of this package is: the operating system refused, or a method failed."
);
create_exception!(
    paint_tta,
    RequestError,
    Error,
    "The request makes no sense: an unknown name, a setting out of range, a GPU that is not there."
);
create_exception!(
    paint_tta,
    WeightsError,
    Error,
    "The weights cannot be read, or make no network that is known here."
);
create_exception!(
    paint_tta,
    ImageError,
    Error,
    "An image cannot be read, or images do not fit the model."
);
create_exception!(
    paint_tta,
    StateError,
    Error,
    "A saved state is missing or damaged, or belongs to another model or method."
);
create_exception!(
    paint_tta,
    OutOfMemoryError,
    Error,
    "The batch does not fit into the memory of the device."
);

/// The exception of an error of the library.
pub(crate) fn raised(error: paint_tta::Error) -> PyErr {
    let kind = error.kind();
    let message = paint_cli::told(&anyhow::Error::from(error));
    match kind {
        ErrorKind::Request => RequestError::new_err(message),
        ErrorKind::Weights => WeightsError::new_err(message),
        ErrorKind::Image => ImageError::new_err(message),
        ErrorKind::State => StateError::new_err(message),
        ErrorKind::Memory => OutOfMemoryError::new_err(message),
        _ => Error::new_err(message),
    }
}

/// The exception of an error of the command line.
pub(crate) fn raised_by_command(error: anyhow::Error) -> PyErr {
    let message = paint_cli::told(&error);
    if paint_cli::is_usage(&error) {
        RequestError::new_err(message)
    } else {
        Error::new_err(message)
    }
}
