//! The native part of the Python package `paint_tta`: what `paint-tta` and the command line offer, for Python values.
//!
//! It is thin. Arrays are numpy's; documents and reports cross as dictionaries; errors become exceptions with the
//! messages of the library. Whatever takes time runs without the interpreter lock. `python/paint_tta` holds what
//! people import.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 extracts arguments by value")]

mod adapter;
mod arrays;
mod document;
mod error;
mod measure;
mod tables;
mod work;

/// The module `paint_tta._paint`.
#[pyo3::pymodule]
mod _paint {
    #[pymodule_export]
    use super::adapter::{Adapter, write_weights};
    #[pymodule_export]
    use super::error::{
        Error, ImageError, OutOfMemoryError, RequestError, StateError, WeightsError,
    };
    #[pymodule_export]
    use super::measure::{bench, run, tune};
    #[pymodule_export]
    use super::tables::{corrupt, embedded_images, explain, list, main};
}
