//! A protocol: everything that decides a number, pinned in one document and named by a hash.
//!
//! A built-in [`Protocol`] may leave open what only the user knows (the weights, a smaller number of images);
//! [`Protocol::resolve`] fills that in from what is really there, data and weights with their fingerprints. The hash
//! is over every key that decides a number: two results with one hash may stand side by side, and for two hashes
//! [`Protocol::differences`] names what differs. Names, descriptions and the methods' settings are not part of it: a
//! method's settings belong to its row of a table, and are named there.

mod built_in;
mod check;
mod difference;
mod document;
mod place;
mod resolve;
#[cfg(test)]
mod tests;

pub use built_in::PROTOCOLS;
pub use check::MOST_SEEDS;
pub use difference::Difference;
pub use document::{Data, Fingerprints, Metric, Protocol};
pub(crate) use place::PLACES;
pub use place::Place;
