//! What a method of your own is written with.
//!
//! A method implements [`Method`]; its settings are a struct that implements [`Settings`]; a [`MethodEntry`] gives
//! both a name. `Registry::default().with(ROW)?` makes a [`Registry`](crate::Registry) in which it stands beside the
//! methods of this library: for an [`Adapter`](crate::Adapter) ([`Builder::methods`](crate::Builder::methods)), a run
//! ([`Experiment::open_with`](crate::run::Experiment::open_with)) and a benchmark
//! ([`Place::methods`](crate::bench::Place::methods)). `examples/custom_method.rs` has one of a hundred lines.
//!
//! A method promises what the documentation of [`Method`] says: above all, that a failed step changes nothing, that
//! `reset` goes back to the source bit for bit, and that a method continues from a saved state as if nothing had
//! happened.

#[doc(inline)]
pub use paint_methods::images::check;
#[doc(inline)]
pub use paint_methods::settings::{Settings, parse};
#[doc(inline)]
pub use paint_methods::{
    BuildArgs, Error, Method, MethodEntry, Predictor, Presets, Result, SourceData, SourceNeed,
    State, Step,
};
#[doc(inline)]
pub use paint_nn::backbone::{Backbone, Features, Request};
#[doc(inline)]
pub use paint_nn::{loss, optim, params};
#[doc(inline)]
pub use paint_rng::Seed;
#[doc(inline)]
pub use paint_tensor::{Device, Gradients, Tensor};
