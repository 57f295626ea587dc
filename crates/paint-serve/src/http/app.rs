//! What every handler can reach.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::engine::{Engine, Shared};
use crate::fault::Fault;

/// Bodies of the largest size that are read at the same time.
const BODIES: usize = 8;
/// Bytes that one permit of the budget stands for.
pub(super) const UNIT: usize = 1024;

/// What every handler can reach.
pub(crate) struct App {
    pub(super) engine: Engine,
    /// Memory for bodies that are being read, in units.
    pub(super) bodies: Arc<Semaphore>,
    /// True once the server is about to end.
    pub(super) drain: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn new(engine: Engine, drain: watch::Receiver<bool>) -> Self {
        let units = BODIES * engine.shared.options.limits.body.div_ceil(UNIT).max(1);
        let bodies = Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)));
        Self { engine, bodies, drain }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.engine.shared
    }

    /// Whether requests are taken.
    pub(crate) fn is_ready(&self) -> bool {
        !*self.drain.borrow()
    }

    /// Refuses while the server is about to end.
    pub(super) fn ready(&self) -> Result<(), Fault> {
        if self.is_ready() {
            return Ok(());
        }
        Err(Fault::Late("the server is about to end".to_owned()))
    }
}
