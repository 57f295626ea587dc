//! Streams: what every thread may see of them. The state itself belongs to the thread that learns.

pub(crate) mod kept;
mod key;
mod live;
mod pending;
mod table;

pub(crate) use key::Key;
pub(crate) use live::{Facts, Live, Point};
pub(crate) use table::Table;
