//! A training on disk: everything needed to continue with the same bits.
//!
//! One safetensors file holds weights, moments, averages and running statistics, and in its metadata the position, the
//! history and the [`Identity`]. It is written beside its place and renamed, so a training that is killed at any moment
//! leaves the file before it whole. Draws need no state: each derives from the seed and its place.

use std::collections::BTreeMap;
use std::path::Path;

use paint_nn::checkpoint::{self, Array, Checkpoint, Dtype};
use paint_tensor::Tensor;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::event::Epoch;
use crate::identity::Identity;
use crate::trainer::Trainer;

const FORMAT: &str = "paint_training";
const VERSION: &str = "1";

/// Writes where a training stands.
pub(crate) fn save(
    path: &Path,
    trainer: &Trainer,
    identity: &Identity,
    history: &[Epoch],
) -> Result<()> {
    let params = trainer.model.params();
    let mut tensors: Vec<(String, Tensor)> = Vec::new();
    for memory in &trainer.optimizer.memory {
        let param = params.param(memory.id);
        let kept = [
            ("model", Some(param.tensor())),
            ("first", memory.first.as_ref()),
            ("second", memory.second.as_ref()),
            ("average", memory.average.as_ref()),
        ];
        let named = |(what, tensor): (&str, Option<&Tensor>)| {
            Some((format!("{what}/{}", param.name()), tensor?.detach()))
        };
        tensors.extend(kept.into_iter().filter_map(named));
    }
    for (what, table) in
        [("running", &trainer.running), ("running_average", &trainer.running_average)]
    {
        tensors.extend(table.iter().map(|(name, x)| (format!("{what}/{name}"), x.clone())));
    }
    let metadata = BTreeMap::from([
        (FORMAT.to_owned(), VERSION.to_owned()),
        ("step".to_owned(), trainer.step.to_string()),
        ("identity".to_owned(), serde_json::json!(identity).to_string()),
        ("history".to_owned(), serde_json::json!(history).to_string()),
    ]);
    write(path, &tensors, Dtype::F32, &metadata)
}

/// Writes tensors as one file.
pub(crate) fn write(
    path: &Path,
    tensors: &[(String, Tensor)],
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let data: Vec<Vec<f32>> =
        tensors.iter().map(|(_, tensor)| tensor.to_vec()).collect::<paint_tensor::Result<_>>()?;
    let arrays = tensors.iter().zip(&data);
    let arrays = arrays.map(|((name, tensor), data)| (name.as_str(), tensor.shape(), &data[..]));
    Ok(checkpoint::write_safetensors(path, arrays, dtype, metadata)?)
}

/// Puts `trainer` where the training of `path` stood, whose epochs have so many `steps`, and returns its history. A file
/// of another training is refused with the first key that differs.
pub(crate) fn resume(
    path: &Path,
    trainer: &mut Trainer,
    identity: &Identity,
    steps: usize,
) -> Result<Vec<Epoch>> {
    let device = trainer.device.clone();
    let mut file = checkpoint::read(path)?;
    let refuse = |expected: String, found: String| Error::Checkpoint {
        expected,
        found,
        path: path.to_owned(),
    };
    let version = file.metadata.get(FORMAT).cloned();
    if version.as_deref() != Some(VERSION) {
        let found = version.map_or_else(|| "other arrays".into(), |v| format!("version {v}"));
        return Err(refuse(format!("a training, version {VERSION}"), found));
    }
    let theirs: serde_json::Value = entry(&file, "identity", path)?;
    if let Some((key, ours, theirs)) = identity.difference(&theirs) {
        return Err(refuse(format!("{key} = {ours}"), format!("{key} = {theirs}")));
    }
    let step: usize = entry(&file, "step", path)?;
    let history: Vec<Epoch> = entry(&file, "history", path)?;
    let (done, epochs) = (history.len(), trainer.recipe.epochs);
    if done > epochs || step != done * steps {
        let expected = format!("at most {epochs} epochs of {steps} steps");
        return Err(refuse(expected, format!("{done} epochs and {step} steps")));
    }
    let mut take = |name: &str, shape: &[usize]| match file.remove(name) {
        Some(Array { shape: found, data, .. }) if found == shape => {
            Ok(Tensor::from_vec(data, shape, &device)?)
        }
        Some(array) => Err(refuse(format!("{name} {shape:?}"), format!("{:?}", array.shape))),
        None => Err(refuse(name.to_owned(), "none".to_owned())),
    };
    let params = trainer.model.params_mut();
    let sgd = trainer.recipe.optimizer == crate::recipe::Optimizer::Sgd;
    for memory in &mut trainer.optimizer.memory {
        let (name, shape) =
            (params.param(memory.id).name().to_owned(), params[memory.id].shape().to_vec());
        params.set(memory.id, &take(&format!("model/{name}"), &shape)?)?;
        if step > 0 {
            memory.first = Some(take(&format!("first/{name}"), &shape)?);
            memory.second = if sgd { None } else { Some(take(&format!("second/{name}"), &shape)?) };
        }
        if memory.average.is_some() {
            memory.average = Some(take(&format!("average/{name}"), &shape)?);
        }
    }
    for (what, table) in
        [("running", &mut trainer.running), ("running_average", &mut trainer.running_average)]
    {
        for (name, tensor) in table {
            *tensor = take(&format!("{what}/{name}"), tensor.shape())?;
        }
    }
    trainer.step = step;
    Ok(history)
}

fn entry<T: DeserializeOwned>(file: &Checkpoint, key: &str, path: &Path) -> Result<T> {
    let text = file.metadata.get(key).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|error| Error::Checkpoint {
        expected: format!("{key:?} in the metadata"),
        found: error.to_string(),
        path: path.to_owned(),
    })
}
