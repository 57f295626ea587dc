//! The Open Inference Protocol, version 2, as JSON and raw tensors: what requests ask, and how answers are written.

mod base64;
mod data;
mod describe;
mod images;
mod outputs;
mod request;

pub(crate) use describe::{config, metadata, server, statistics};
pub(crate) use images::{Images, images};
pub(crate) use outputs::{Reply, Wanted, wanted};
pub(crate) use request::{Ask, Request};

/// The only version of a model; what adaptation changes is told in the parameters of an answer.
pub(crate) const VERSION: &str = "1";
/// The length of the JSON in front of raw tensors.
pub(crate) const JSON_LENGTH: &str = "inference-header-content-length";
