//! Adapted weights as a file of their own, with timm's names.

use std::collections::BTreeMap;
use std::path::Path;

use paint_nn::checkpoint::{Dtype, write_safetensors};
use paint_nn::state::file::{self, Kind};
use paint_tensor::{Device, Tensor};

use super::store::is_of_subject;
use crate::config::{Draft, Model};
use crate::experiment::write_text;
use crate::model::{self, embedded};
use crate::{Error, Result};

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
    let adapted = saved.state.part("model").tensors;
    let known = |name: &String| network.params().id(name).is_ok();
    let changed = adapted.keys().filter(|name| known(name)).count();
    if changed == 0 {
        return Err(Error::Checkpoint {
            expected: "a state whose method changed parameters of the network".into(),
            found: "one that changed none: what it learnt lies beside the weights".into(),
            path: state.to_owned(),
        });
    }
    let mut arrays: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    let mut add = |name: &str, tensor: &Tensor| -> Result<()> {
        arrays.push((name.to_owned(), tensor.shape().to_vec(), tensor.to_vec()?));
        Ok(())
    };
    for param in network.params().iter() {
        add(param.name(), adapted.get(param.name()).unwrap_or(param.tensor()))?;
    }
    for (name, value) in network.running_statistics() {
        add(&name, &value)?;
    }
    let rows = arrays.iter().map(|(name, shape, data)| (name.as_str(), &shape[..], &data[..]));
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    write_safetensors(out, rows, Dtype::F32, &metadata)?;
    describe(weights, out)?;
    Ok(changed)
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
    let from = weights.with_file_name("config.json");
    if !from.exists() {
        return Ok(());
    }
    let read = |source| Error::Io { action: "read", source, path: from.clone() };
    write_text(&beside, &paint_files::read_text(&from).map_err(read)?)
}
