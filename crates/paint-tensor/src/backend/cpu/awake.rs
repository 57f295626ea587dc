//! Threads that stay awake between the operations of one piece of work.

use std::sync::atomic::{AtomicBool, Ordering};

/// More threads than these would be in each other's way while they look for something to do.
const MOST: usize = 8;
/// Looks without success after which a thread lets others have its core.
const PATIENCE: usize = 256;

/// Ends the watch of the other threads, also where the work panics.
struct Watch<'a>(&'a AtomicBool);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on a thread of the current pool while the others look for its tasks without going to sleep.
pub(crate) fn run<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let is_over = AtomicBool::new(false);
    rayon::scope(|scope| {
        let _watch = Watch(&is_over);
        for _ in 1..rayon::current_num_threads().min(MOST) {
            scope.spawn(|_| look_for_tasks(&is_over));
        }
        work()
    })
}

fn look_for_tasks(is_over: &AtomicBool) {
    let mut idle = 0;
    while !is_over.load(Ordering::Relaxed) {
        if rayon::yield_now() == Some(rayon::Yield::Executed) {
            idle = 0;
        } else if idle < PATIENCE {
            idle += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
