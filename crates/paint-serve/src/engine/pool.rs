//! The threads of the kernels: one set for predictions and one for steps, so that no prediction waits behind the work
//! of a step.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

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

/// Puts the calling thread into Linux's idle class: it runs where no other thread wants the core, and the scheduler
/// places a prediction as if the core were free. Other systems have no such class for a thread.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        // Where it is refused, the threads share a core evenly.
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    }
}
