//! A model that adapts, for Python.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use numpy::{PyArrayDyn, PyArrayMethods as _, PyUntypedArrayMethods as _};
use paint_tta::{Batch, Builder, Weight, toml};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyDict};

use crate::arrays::{Given, handed_over};
use crate::document::{report, table};
use crate::error::{Error, raised};

/// One call at a time: a second thread waits for the first, without the interpreter lock.
#[pyclass(module = "paint_tta._paint", frozen)]
pub(crate) struct Adapter(Mutex<paint_tta::Adapter>);

type Logits<'py> = Bound<'py, PyArrayDyn<f32>>;

#[pymethods]
impl Adapter {
    /// Opens the document of an adaptation.
    #[new]
    fn new(py: Python<'_>, document: &Bound<'_, PyDict>) -> PyResult<Self> {
        let table = table(document)?;
        let open = || Builder::from_toml(&toml::to_string(&table).unwrap_or_default())?.open();
        Ok(Self(Mutex::new(py.detach(open).map_err(raised)?)))
    }

    /// Adapts to a batch and predicts it: logits `[B, C]`, and what is said about the step.
    fn step<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
    ) -> PyResult<(Logits<'py>, Bound<'py, PyDict>)> {
        let given = Given::read(images)?;
        let batch = py.detach(|| {
            let mut adapter = self.lock()?;
            let images = given.fitted(&adapter).map_err(raised)?;
            adapter.step_on(&images).map_err(raised)
        })?;
        let Batch { predictions, logits, scalars, prompt, guard, ms, .. } = batch;
        let prompt = prompt.map(|used| {
            serde_json::json!({
                "index": used.index, "allocated": used.allocated, "reliability": used.reliability,
            })
        });
        let said = PyDict::new(py);
        // Not by way of JSON, which has no NaN.
        said.set_item("scalars", scalars.into_py_dict(py)?)?;
        said.set_item("prompt", report(py, &prompt)?)?;
        said.set_item("guard", report(py, &guard)?)?;
        said.set_item("ms", ms)?;
        Ok((matrix(py, predictions.len(), logits)?, said))
    }

    /// Predicts a batch: logits `[B, C]`. Nothing changes.
    fn predict<'py>(&self, py: Python<'py>, images: &Bound<'py, PyAny>) -> PyResult<Logits<'py>> {
        let given = Given::read(images)?;
        let (rows, logits) = py.detach(|| {
            let mut adapter = self.lock()?;
            let images = given.fitted(&adapter).map_err(raised)?;
            // The lock stays with this thread, and the adapter, which only one thread may have, goes along.
            let (adapter, images) = (&mut *adapter, &images);
            let logits = images.device().run(move || adapter.logits(images)).map_err(raised)?;
            PyResult::Ok((images.shape()[0], logits))
        })?;
        matrix(py, rows, logits)
    }

    /// Goes back to the source model.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock()?.reset().map_err(raised))
    }

    /// Writes everything that adaptation changed.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.lock()?.save(path).map_err(raised))
    }

    /// Continues from a saved state.
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.lock()?.load(path).map_err(raised))
    }

    /// The weights as adaptation left them, by timm's names.
    fn model_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let weights = py.detach(|| self.lock()?.weights().map_err(raised))?;
        let state = PyDict::new(py);
        for Weight { name, shape, data } in weights {
            state.set_item(name, handed_over(py, &shape, data)?)?;
        }
        Ok(state)
    }

    /// The model's table and the method's, with every default written out; the classes; what the guard did so far.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let about = py.detach(|| {
            let adapter = self.lock()?;
            PyResult::Ok(serde_json::json!({
                "model": adapter.model(),
                "method": adapter.method(),
                "settings": adapter.settings(),
                "class_names": adapter.class_names(),
                "num_classes": adapter.num_classes(),
                "guard": adapter.guarded(),
            }))
        })?;
        report(py, &about)
    }
}

impl Adapter {
    fn lock(&self) -> PyResult<MutexGuard<'_, paint_tta::Adapter>> {
        let broken = |_| Error::new_err("an earlier call ended in a panic: open the model again");
        self.0.lock().map_err(broken)
    }
}

fn matrix(py: Python<'_>, rows: usize, logits: Vec<f32>) -> PyResult<Logits<'_>> {
    handed_over(py, &[rows, logits.len() / rows.max(1)], logits)
}

/// Writes arrays as a file of weights, whole or not at all.
#[pyfunction]
pub(crate) fn write_weights(
    py: Python<'_>,
    path: PathBuf,
    arrays: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let mut weights = Vec::new();
    for (name, array) in arrays {
        let array = array.cast::<PyArrayDyn<f32>>()?.readonly();
        let (shape, data) = (array.shape().to_vec(), array.as_slice()?.to_vec());
        weights.push(Weight { name: name.extract()?, shape, data });
    }
    py.detach(|| paint_tta::write_weights(&path, &weights)).map_err(|error| raised(error.into()))
}
