//! A stream of a model: what tables and queues know it by.

use std::cmp::Ordering;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::model::Model;
use crate::storage::StreamId;

/// A stream of a model.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) model: Arc<Model>,
    pub(crate) id: StreamId,
}

impl Key {
    /// The file of its state, to be read; none if there is none.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        self.model.storage.find(&self.id)
    }

    /// Whether it was ever used.
    pub(crate) fn is_known(&self) -> bool {
        self.model.storage.knows(&self.id)
    }

    fn names(&self) -> (&str, &StreamId) {
        (&self.model.name, &self.id)
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names().cmp(&other.names())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for Key {}

/// As the log writes it.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.model.name, self.id)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
