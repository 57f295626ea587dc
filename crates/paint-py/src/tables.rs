//! What can be named, images to try things with, and the command line.

use std::ffi::OsString;

use numpy::PyArrayDyn;
use pyo3::prelude::*;

use crate::arrays::{from_images, images};
use crate::document::report;
use crate::error::{raised, raised_by_command};

/// The rows of a table of `paint list`.
#[pyfunction]
pub(crate) fn list<'py>(py: Python<'py>, topic: &str) -> PyResult<Bound<'py, PyAny>> {
    report(py, &paint_cli::list(topic).map_err(raised_by_command)?)
}

/// All that `paint explain` says of a name.
#[pyfunction]
pub(crate) fn explain<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    report(py, &paint_cli::explain(name).map_err(raised_by_command)?)
}

/// Images uint8 `[B, H, W, 3]` under a corruption.
#[pyfunction]
pub(crate) fn corrupt<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    corruption: &str,
    severity: u8,
    seed: u64,
) -> PyResult<Bound<'py, PyArrayDyn<u8>>> {
    let images = images(array)?;
    let corrupted = || paint_tta::corrupt_all(&images, corruption, severity, seed);
    from_images(py, py.detach(corrupted).map_err(raised)?)
}

/// The first images of CIFAR-10's test set, of which the library has 1,000: uint8 `[B, 32, 32, 3]`.
#[pyfunction]
pub(crate) fn embedded_images(py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyArrayDyn<u8>>> {
    from_images(py, paint_tta::embedded_images(count).map_err(raised)?)
}

/// The command line; the first word is the program's name. Returns the exit status.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| paint_cli::main(args))
}
