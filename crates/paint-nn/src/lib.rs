//! Networks, losses, optimizers and checkpoints.

pub mod checkpoint;
