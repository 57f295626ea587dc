//! The threads of the kernels: predictions and steps have their own, so that no prediction waits behind the work of a
//! step.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// Niceness of a step's threads: where both want a core, a prediction gets 29 thirtieths of it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 15;

/// The most images that one thread predicts while a step runs. Threads that wait for each other between kernels yield
/// their core, and the scheduler then gives a step some milliseconds of it; one thread waits for nobody.
const FEW_IMAGES: usize = 4;
/// Where there are more cores than this, further threads gain more than the waiting costs.
const FEW_CORES: usize = 4;

/// The threads of predictions.
pub(super) struct Predicting {
    every: ThreadPool,
    one: ThreadPool,
}

impl Predicting {
    pub(super) fn new() -> Result<Self> {
        let one = ThreadPoolBuilder::new().num_threads(1);
        Ok(Self { every: build(for_every_core())?, one: build(one)? })
    }

    /// The threads for a request of so many images.
    pub(super) fn of(&self, images: usize, beside_a_step: bool) -> &ThreadPool {
        let few = images <= FEW_IMAGES && self.every.current_num_threads() <= FEW_CORES;
        if beside_a_step && few { &self.one } else { &self.every }
    }
}

pub(super) fn for_steps() -> Result<ThreadPool> {
    build(for_every_core().start_handler(|_| give_way()))
}

/// As many threads as kernels have elsewhere in the program.
fn for_every_core() -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().num_threads(rayon::current_num_threads())
}

fn build(builder: ThreadPoolBuilder) -> Result<ThreadPool> {
    builder.build().map_err(|error| Error::Thread(std::io::Error::other(error)))
}

/// Linux has a niceness for each thread. Elsewhere it is the whole program's, and stays as it is.
fn give_way() {
    #[cfg(target_os = "linux")]
    // Where it is refused, the threads share a core evenly.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
