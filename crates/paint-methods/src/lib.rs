//! Continual test-time adaptation methods.
//!
//! A [`Method`] sees unlabelled images and nothing else: no signature of this crate carries a label, and no method can
//! name a dataset. Each method is one file and one row of [`METHODS`].

mod error;
mod method;

pub use error::{Error, Result};
pub use method::{METHODS, Method, MethodEntry, PromptUse, State, Step};
