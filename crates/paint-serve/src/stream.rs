//! Streams: what every thread may see of them. The state itself belongs to the thread that learns.

mod id;
pub(crate) mod kept;
mod live;
mod pending;
mod table;

pub(crate) use id::{Bounds, StreamId};
pub(crate) use live::{Facts, Inside, Live, Point};
pub(crate) use table::Table;
