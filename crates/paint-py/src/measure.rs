//! Measured runs and benchmarks.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paint_tta::bench::GridEvent;
use paint_tta::run::{Draft, Earlier, Event, Experiment};
use paint_tta::toml;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::document::{report, table};
use crate::error::{raised, raised_by_command};
use crate::work::interruptible;

/// Someone in Python who is told of events; the first exception ends the work.
struct Listener {
    callback: Option<Py<PyAny>>,
    raised: Mutex<Option<PyErr>>,
}

impl Listener {
    fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, raised: Mutex::new(None) }
    }

    fn tell(&self, stop: &AtomicBool, event: &Event) {
        let Some(callback) = &self.callback else { return };
        let told = Python::attach(|py| callback.call1(py, (report(py, event)?,)).map(drop));
        if let Err(error) = told {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// The result, unless the listener raised an exception.
    fn judge<T>(self, result: PyResult<T>) -> PyResult<T> {
        match self.raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => result,
        }
    }
}

/// Runs the document of a run, given as a file or a dictionary, with `set` in place of what it says.
#[pyfunction]
pub(crate) fn run<'py>(
    py: Python<'py>,
    config: &Bound<'py, PyAny>,
    set: &Bound<'py, PyDict>,
    earlier: &str,
    on_event: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut draft = if let Ok(dict) = config.cast::<PyDict>() {
        let text = toml::to_string(&table(dict)?).unwrap_or_default();
        Draft::parse(&text, "config").map_err(|error| raised(error.into()))?
    } else {
        Draft::read(&config.extract::<PathBuf>()?).map_err(|error| raised(error.into()))?
    };
    for (key, value) in table(set)? {
        draft.set(&key, value).map_err(|error| raised(error.into()))?;
    }
    let earlier = match earlier {
        "keep" => Earlier::Keep,
        "resume" => Earlier::Resume,
        "overwrite" => Earlier::Overwrite,
        other => {
            let known = "expected keep, resume or overwrite";
            return Err(PyValueError::new_err(format!("earlier: {known}, got {other:?}")));
        }
    };
    let listener = Listener::new(on_event);
    let summary = interruptible(py, |stop| {
        let run = || -> paint_tta::Result<_> {
            let experiment = Experiment::open(draft.resolve()?)?.stopping_on(Arc::clone(stop));
            Ok(experiment.run(earlier, |event: &Event| listener.tell(stop, event))?)
        };
        run().map_err(raised)
    });
    report(py, &listener.judge(summary)?)
}

/// `paint bench` with these flags.
#[pyfunction]
pub(crate) fn bench(
    py: Python<'_>,
    flags: Vec<OsString>,
    on_event: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyAny>> {
    command(py, on_event, |stop, tell| paint_cli::bench(flags, stop, tell))
}

/// `paint tune` with these flags.
#[pyfunction]
pub(crate) fn tune(
    py: Python<'_>,
    flags: Vec<OsString>,
    on_event: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyAny>> {
    command(py, on_event, |stop, tell| paint_cli::tune(flags, stop, tell))
}

/// Runs a command whose runs are told to the listener.
fn command<T: Serialize + Send>(
    py: Python<'_>,
    on_event: Option<Py<PyAny>>,
    run: impl FnOnce(&Arc<AtomicBool>, &(dyn Fn(GridEvent<'_>) + Sync)) -> anyhow::Result<T> + Send,
) -> PyResult<Bound<'_, PyAny>> {
    let listener = Listener::new(on_event);
    let results = interruptible(py, |stop| {
        let tell = |event: GridEvent<'_>| {
            if let GridEvent::Running { event, .. } = event {
                listener.tell(stop, event);
            }
        };
        run(stop, &tell).map_err(raised_by_command)
    });
    report(py, &listener.judge(results)?)
}
