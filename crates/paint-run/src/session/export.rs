//! Adapted weights as a file of their own, with timm's names.

use std::collections::BTreeMap;
use std::path::Path;

use paint_methods::State;
use paint_nn::backbone::Backbone;
use paint_nn::checkpoint::{self, Dtype, write_safetensors};
use paint_nn::state::file::{self, Kind};
use paint_tensor::{Device, Tensor};

use super::Session;
use super::store::is_of_subject;
use crate::config::{Draft, Model};
use crate::experiment::write_text;
use crate::model::{self, embedded};
use crate::{Error, Result};

/// An array of a set of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, row by row.
    pub data: Vec<f32>,
}

/// Writes the weights that a state's method adapted, and `config.json` beside them where there is none: the weights the
/// state belongs to, with what adaptation changed in their place. Returns how many parameters changed. What lies beside
/// the network (prompts, statistics) cannot be exported; a state that changed no parameter is an error.
pub fn export(state: &Path, weights: &Path, out: &Path) -> Result<usize> {
    let saved = file::read(state, Kind::Adaptation, &Device::cpu())?;
    let mut draft = Draft::default();
    for (key, value) in saved.about.iter().filter(|(key, _)| is_of_subject(key)) {
        if key.starts_with("model.") {
            draft.set_assignment(&format!("{key}={value}"))?;
        }
    }
    draft.set("model.weights", weights.display().to_string())?;
    let mut config: Model = draft.resolve_part("model")?;
    let network = model::open(&mut config, &Device::cpu())?;
    let (changed, arrays) = adapted(&*network, &saved.state)?;
    if changed == 0 {
        return Err(Error::Checkpoint {
            expected: "a state whose method changed parameters of the network".into(),
            found: "one that changed none: what it learnt lies beside the weights".into(),
            path: state.to_owned(),
        });
    }
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let io = |source| Error::Io { action: "create", source, path: folder.to_owned() };
        paint_files::create_folder(folder).map_err(io)?;
    }
    let beside = network.vit_config().map(|vit| vit.variant.metadata()).unwrap_or_default();
    write_arrays(out, &arrays, beside)?;
    describe(weights, out)?;
    Ok(changed)
}

impl Session {
    /// The weights as adaptation left them, with timm's names. What lies beside the network (prompts, statistics) is
    /// no part of them; a method that changes no parameter is an error.
    pub fn weights(&self) -> Result<Vec<Weight>> {
        let (changed, arrays) = adapted(self.deployment.model(), &self.method.save()?)?;
        if changed == 0 {
            let name = &self.deployment.config.method.name;
            return Err(Error::config(format!(
                "expected a method that changes parameters of the network, got {name}: what it learns lies beside the weights"
            )));
        }
        Ok(arrays)
    }
}

/// Writes arrays as safetensors, whole or not at all.
pub fn write_weights(path: &Path, arrays: &[Weight]) -> Result<()> {
    write_arrays(path, arrays, BTreeMap::new())
}

fn write_arrays(
    path: &Path,
    arrays: &[Weight],
    mut metadata: BTreeMap<String, String>,
) -> Result<()> {
    let rows =
        arrays.iter().map(|Weight { name, shape, data }| (name.as_str(), &shape[..], &data[..]));
    metadata.insert("format".to_owned(), "pt".to_owned());
    Ok(write_safetensors(path, rows, Dtype::F32, &metadata)?)
}

/// The weights of `network` with what `state` changed in their place, and how many parameters that is.
fn adapted(network: &dyn Backbone, state: &State) -> Result<(usize, Vec<Weight>)> {
    let adapted = state.part("model").tensors;
    let known = |name: &String| network.params().id(name).is_ok();
    let changed = adapted.keys().filter(|name| known(name)).count();
    let array = |name: &str, tensor: &Tensor| -> Result<Weight> {
        Ok(Weight { name: name.to_owned(), shape: tensor.shape().to_vec(), data: tensor.to_vec()? })
    };
    let params = network.params().iter();
    let mut arrays = params
        .map(|param| array(param.name(), adapted.get(param.name()).unwrap_or(param.tensor())))
        .collect::<Result<Vec<_>>>()?;
    for (name, value) in network.running_statistics() {
        arrays.push(array(&name, &value)?);
    }
    Ok((changed, arrays))
}

/// Puts the files that describe the weights beside the new ones, unless some are there.
fn describe(weights: &Path, out: &Path) -> Result<()> {
    let beside = out.with_file_name("config.json");
    if beside.exists() {
        return Ok(());
    }
    if weights == Path::new(embedded::NAME) {
        return write_text(&beside, embedded::CONFIG);
    }
    let from = checkpoint::locate(weights)?.with_file_name("config.json");
    if !from.exists() {
        return Ok(());
    }
    let read = |source| Error::Io { action: "read", source, path: from.clone() };
    write_text(&beside, &paint_files::read_text(&from).map_err(read)?)
}
