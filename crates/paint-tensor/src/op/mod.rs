//! The operations: each checks shapes, calls one kernel forward, and records the rule for backward beside it.

mod activation;
mod attention;
mod elementwise;
mod layout;
mod linear;
mod matmul;
mod norm;
mod reduce;
pub(crate) mod update;
