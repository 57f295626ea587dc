//! A training on disk: everything needed to continue with the same bits.
//!
//! The state holds weights, moments, averages and running statistics, and beside them the history, the sums of the
//! epoch that has begun and the [`Identity`]. It goes through [`paint_nn::state::file`], so a training that is killed
//! at any moment leaves the file before it whole, and damage is noticed. Draws need no state: each derives from the
//! seed and its place.

use std::collections::BTreeMap;
use std::path::Path;

use paint_nn::checkpoint::{self, Dtype};
use paint_nn::state::State;
use paint_nn::state::file::{self, Kind, Saved};
use paint_tensor::Tensor;

use crate::error::{Error, Result};
use crate::event::Epoch;
use crate::identity::Identity;
use crate::meter::Sums;
use crate::trainer::Trainer;

const STEP: &str = "step";
const IDENTITY: &str = "identity";
const HISTORY: &str = "history";
const BEGUN: &str = "begun";

/// Where a training stands, beside its trainer.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The epochs that are done.
    pub(crate) history: Vec<Epoch>,
    /// What the one that has begun counted so far.
    pub(crate) begun: Sums,
}

impl Position {
    /// What is said of a training that ends here because it was told to.
    pub(crate) fn stopped(&self, out: &Path) -> Error {
        let (epochs, steps) = (self.history.len(), self.begun.steps);
        Error::Stopped { epochs, steps, path: out.to_owned() }
    }
}

/// Writes where a training stands.
pub(crate) fn save(
    path: &Path,
    trainer: &Trainer,
    identity: &Identity,
    position: &Position,
) -> Result<()> {
    let params = trainer.model.params();
    let mut state = State::default();
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
        state.tensors.extend(kept.into_iter().filter_map(named));
    }
    for (what, table) in
        [("running", &trainer.running), ("running_average", &trainer.running_average)]
    {
        state.tensors.extend(table.iter().map(|(name, x)| (format!("{what}/{name}"), x.clone())));
    }
    state.counters.insert(STEP.to_owned(), trainer.step as u64);
    let about = [
        (IDENTITY.to_owned(), serde_json::json!(identity).to_string()),
        (HISTORY.to_owned(), serde_json::json!(position.history).to_string()),
        (BEGUN.to_owned(), serde_json::json!(position.begun).to_string()),
    ];
    Ok(file::write(path, Kind::Training, &state, &about.into())?)
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

/// Puts `trainer` where the training of `path` stood, whose epochs have so many `steps`. A file of another training is
/// refused with the first key that differs.
pub(crate) fn resume(
    path: &Path,
    trainer: &mut Trainer,
    identity: &Identity,
    steps: usize,
) -> Result<Position> {
    let Saved { mut state, about } = file::read(path, Kind::Training, &trainer.device)?;
    let refuse = |expected: String, found: String| Error::Checkpoint {
        expected,
        found,
        path: path.to_owned(),
    };
    let theirs: serde_json::Value = file::entry(&about, IDENTITY, path)?;
    if let Some((key, ours, theirs)) = identity.difference(&theirs) {
        return Err(refuse(format!("{key} = {ours}"), format!("{key} = {theirs}")));
    }
    let position = Position {
        history: file::entry(&about, HISTORY, path)?,
        begun: file::entry(&about, BEGUN, path)?,
    };
    let step = state.counter(STEP)? as usize;
    let (done, epochs) = (position.history.len(), trainer.recipe.epochs);
    let counted =
        done.checked_mul(steps).and_then(|before| before.checked_add(position.begun.steps));
    if counted != Some(step)
        || done > epochs
        || position.begun.steps >= steps
        || step > epochs * steps
    {
        let expected = format!("at most {epochs} epochs of {steps} steps");
        let begun = position.begun.steps;
        return Err(refuse(
            expected,
            format!("{done} epochs, {begun} steps of the next, {step} steps in all"),
        ));
    }
    let mut take = |name: &str, shape: &[usize]| match state.tensors.remove(name) {
        Some(tensor) if tensor.shape() == shape => Ok(tensor),
        Some(tensor) => Err(refuse(format!("{name} {shape:?}"), format!("{:?}", tensor.shape()))),
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
    Ok(position)
}
