//! Networks, losses, optimizers and checkpoints.

pub mod backbone;
pub mod checkpoint;
pub mod error;
mod layers;
pub mod loss;
pub mod optim;
pub mod params;
pub mod prompt;
pub mod state;

pub use error::{Error, Misfit, Result};
