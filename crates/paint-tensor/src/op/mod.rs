//! The operations: each checks shapes, calls a kernel, and records the rule for its backward pass.

mod activation;
pub(crate) mod alignment;
mod attention;
pub(crate) mod batch_norm;
mod branch;
pub(crate) mod conv;
mod depthwise;
pub(crate) mod distort;
mod elementwise;
mod group_norm;
pub(crate) mod images;
mod layout;
mod linear;
mod matmul;
pub(crate) mod mlp;
mod norm;
mod pool;
pub(crate) mod reduce;
pub(crate) mod step;
mod tokens;
pub(crate) mod windows;
