//! The grid of a benchmark: every variant of every method, on every order of the stream, with every seed.
//!
//! A [`Cell`] is one run. Its folder is named by the hash of everything that decides its numbers: a finished cell is
//! never run again, whatever grid asks for it, and a cell of other settings is never taken for it. A killed grid
//! continues where it was: finished cells are read, and one that was interrupted continues from its checkpoint with
//! the same bits.

mod cell;
mod cell_result;
mod execute;
mod layout;
mod looks;
mod plan;
mod results;
mod row;
mod settings;
mod significance;
mod timing;
mod variant;

#[cfg(test)]
pub(crate) mod tests;

pub use cell::Cell;
pub use cell_result::{CellResult, DomainFigures};
pub use execute::{Failure, GridEvent, Outcome, Work, execute};
pub use layout::Grid;
pub use looks::{Look, Looks};
pub use plan::{Planned, Shard};
pub use results::Results;
pub use row::{Column, Origin, Row, Spread};
pub use settings::{Named, named};
pub use significance::{MIN_PAIRS, Paired, paired};
pub use timing::CellTiming;
pub use variant::Variant;
