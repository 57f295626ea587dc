//! Threads that stay awake between the operations of one piece of work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More threads than these would be in each other's way while they look for something to do.
const MOST: usize = 8;
/// Looks without success after which a thread lets others have its core.
const PATIENCE: usize = 256;

/// The longest wait for the other threads to start looking. A thread that looked sooner could take their share of the
/// watch, and they would go back to sleep.
const GATHERING: Duration = Duration::from_micros(50);

/// Whether threads stay awake for a piece of work.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Sets a flag when it is dropped, which a panic does too.
struct While<'a>(&'a AtomicBool, bool);

impl Drop for While<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Release);
    }
}

/// Runs `work` on a thread of the current pool while the others look for its tasks without going to sleep. The process
/// does so for one caller at a time, because a thread that waits for its own tasks may start whatever else is in the pool:
/// the work of other callers stays on their threads.
pub(crate) fn run<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return work();
    }
    let _taken = While(&IS_TAKEN, false);
    let (is_over, began) = (AtomicBool::new(false), AtomicUsize::new(0));
    rayon::scope(|scope| {
        let _over = While(&is_over, true);
        let owner = rayon::current_thread_index();
        let others = rayon::current_num_threads().min(MOST) - 1;
        let (is_over, began) = (&is_over, &began);
        for _ in 0..others {
            scope.spawn(move |_| {
                // On the thread of the work it would wait for the work, and the work for it.
                if rayon::current_thread_index() != owner {
                    began.fetch_add(1, Ordering::Relaxed);
                    gather(is_over, || began.load(Ordering::Relaxed) >= others);
                    look_for_tasks(is_over);
                }
            });
        }
        work()
    })
}

/// Whether threads are awake for some piece of work.
pub(super) fn is_on() -> bool {
    IS_TAKEN.load(Ordering::Relaxed)
}

/// Waits a moment for the other threads.
fn gather(is_over: &AtomicBool, all_began: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_over.load(Ordering::Relaxed) && !all_began() && begun.elapsed() < GATHERING {
        std::hint::spin_loop();
    }
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

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    /// A thread that looks for the tasks of one caller never starts the whole work of another.
    #[test]
    fn one_caller_at_a_time_has_the_pool_and_a_panic_gives_it_back() {
        let inner = run(|| {
            let pool = rayon::current_thread_index();
            let other = std::thread::scope(|scope| {
                scope.spawn(|| run(rayon::current_thread_index)).join().unwrap()
            });
            (pool, other)
        });
        assert!(inner.0.is_some() && inner.1.is_none(), "{inner:?}");
        assert!(std::panic::catch_unwind(|| run(|| panic!("on purpose"))).is_err());
        assert!(run(rayon::current_thread_index).is_some());
        for threads in [1, 2, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let sum = pool.install(|| run(|| (0..10_000_u64).into_par_iter().sum::<u64>()));
            assert_eq!(sum, 49_995_000, "{threads} threads");
        }
    }
}
