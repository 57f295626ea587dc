//! Dictionaries to TOML documents, and reports to dictionaries.

use paint_tta::toml::{Table, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple};
use serde::Serialize;

use crate::error::{Error, RequestError};

/// The table of a dictionary. `None` means that a key is left out.
pub(crate) fn table(dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict {
        if !value.is_none() {
            let key: String = key.extract()?;
            let value = to_value(&key, &value)?;
            table.insert(key, value);
        }
    }
    Ok(table)
}

fn to_value(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    // A truth value is an integer to Python, so it is asked for first.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(truth.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let too_large = |_| RequestError::new_err(format!("{key}: expected 64 bits, got {value}"));
        return value.extract().map(Value::Integer).map_err(too_large);
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::String(value.extract()?));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Value::Table(table(dict)?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| to_value(key, &item?));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Value::Float(number));
    }
    let kind = value.get_type().name()?;
    Err(RequestError::new_err(format!(
        "{key}: expected a number, text, a truth value, a list or a dictionary, got {kind}"
    )))
}

/// A report as Python's own values, by way of JSON.
pub(crate) fn report<'py>(
    py: Python<'py>,
    value: &(impl Serialize + ?Sized),
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| Error::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
