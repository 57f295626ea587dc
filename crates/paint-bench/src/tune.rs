//! The best settings of a method for a model, found on corruptions that no benchmark has.
//!
//! A [`Space`] holds the settings that are searched, each over the values that its method declares. The search is
//! successive halving: many candidates see few images, the best third of them three times as many, and the last three
//! all of them, several times as long and with several seeds. The settings that the method has anyway are always among
//! the last three, so that a gain is measured and not assumed. Then each setting of the best candidate is moved a
//! little to both sides, to see how much the choice matters; what is better there is measured like the last three.
//!
//! Every stage is a [`grid`](crate::grid): finished runs are never run again, so a search that was killed goes on
//! where it was and makes the same choice.

mod candidate;
mod preset;
mod request;
mod schedule;
mod search;
mod space;
mod tuned;

#[cfg(test)]
mod tests;

pub use preset::Preset;
pub use request::{Request, held_out};
pub use schedule::{Budget, Rung};
pub use search::Measure;
pub use space::{Dimension, Space};
pub use tuned::{Finalist, Margin, Neighbour, Tuned, Work};
