//! Work that can be interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long Ctrl-C may go unnoticed.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own, without the interpreter lock. Where Python has a signal to report meanwhile,
/// such as Ctrl-C, the flag that `work` looks at is set, its end is awaited, and the signal's exception raised.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> PyResult<T> + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let waiting = thread::current();
    let mut interrupted = Ok(());
    let done = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let done = work(&stop);
            waiting.unpark();
            done
        });
        while !worker.is_finished() {
            py.detach(|| thread::park_timeout(PAUSE));
            if interrupted.is_ok() {
                interrupted = py.check_signals();
                stop.fetch_or(interrupted.is_err(), Ordering::Relaxed);
            }
        }
        py.detach(|| worker.join())
    });
    interrupted?;
    done.unwrap_or_else(|_| Err(PyRuntimeError::new_err("the work ended in a panic")))
}
