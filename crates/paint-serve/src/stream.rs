//! Streams: what every thread may see of them. The state itself belongs to the thread that learns.

mod id;
pub(crate) mod kept;
mod key;
mod lease;
mod live;
mod pending;
mod storage;
mod table;

pub(crate) use id::{Bounds, StreamId};
pub(crate) use key::Key;
pub(crate) use live::{Facts, Live, Point};
pub(crate) use storage::Storage;
pub(crate) use table::Table;
