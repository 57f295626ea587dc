//! The threads of the kernels: one set for predictions and one for steps, so that no prediction waits behind the work
//! of a step.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// Niceness of a step's threads: where both want a core, a prediction gets 29 thirtieths of it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 15;

pub(super) fn for_predictions() -> Result<ThreadPool> {
    build(ThreadPoolBuilder::new())
}

pub(super) fn for_steps() -> Result<ThreadPool> {
    build(ThreadPoolBuilder::new().start_handler(|_| give_way()))
}

/// As many threads as kernels have elsewhere in the program.
fn build(builder: ThreadPoolBuilder) -> Result<ThreadPool> {
    let pool = builder.num_threads(rayon::current_num_threads()).build();
    pool.map_err(|error| Error::Thread(std::io::Error::other(error)))
}

/// Linux has a niceness for each thread. Elsewhere it is the whole program's, and stays as it is.
fn give_way() {
    #[cfg(target_os = "linux")]
    // Where it is refused, the threads share a core evenly.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
