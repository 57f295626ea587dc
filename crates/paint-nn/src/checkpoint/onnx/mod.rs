//! ONNX graphs, of which the weights are read; nothing is run.
//!
//! A graph is a protobuf message ([`wire`], [`proto`]). Its initialisers are the arrays ([`tensor`], [`external`]),
//! and exporters keep the names of parameters for most of them. What has lost its name is found by the layer that uses
//! it ([`layers`]). An array that no layer explains is refused, because a network without it might still be built.

mod external;
mod facts;
mod graph;
mod layers;
mod proto;
mod scope;
mod tensor;
mod wire;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use paint_files::{Budget, Fault, Source, abridged};

use super::array::Array;
use super::{Checkpoint, Format, WAY_OUT};
use external::Beside;
use graph::Constants;
use layers::{Change, Derived};
use proto::Model;
use scope::is_parameter;
use tensor::Tensor;

/// The most files that arrays may lie in: the older exporter writes one for each.
const MOST_FILES: usize = 10_000;

/// The arrays of a graph whose other files lie in `folder`.
pub(super) fn decode(source: &Source, folder: Option<&Path>) -> Result<Checkpoint, Fault> {
    let mut budget = Budget::for_file(source.len());
    let Model { producer, mut graph } = Model::read(source, &mut budget)?;
    let constants = Constants::of(&mut graph, &mut budget)?;
    facts::check(&graph, &constants)?;
    let derived = Derived::of(&graph.nodes, &constants)?;

    let mut beside = Beside::new(folder);
    let lengths = files(&constants.tensors)?
        .iter()
        .map(|file| Ok(std::fs::metadata(beside.path(file)?).map_or(0, |about| about.len())))
        .sum::<Result<u64, Fault>>()?;
    let mut budget = Budget::for_file(source.len().saturating_add(lengths));
    let mut read = |name: &str, tensor: &Tensor, change: Change| {
        let array = tensor.read(&mut beside, &mut budget).and_then(|array| changed(array, change));
        array.map_err(|fault| fault.in_array(name))
    };

    let mut checkpoint = Checkpoint::new(Format::Onnx);
    if !producer.is_empty() {
        checkpoint.metadata.insert("producer".to_owned(), abridged(&producer));
    }
    facts::traits(&graph.nodes).note(&mut checkpoint.metadata);
    let own = constants.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    let named = own.clone().filter(|(name, _)| is_parameter(name)).chain(constants.copies());
    for (name, tensor) in named {
        if derived.rows.contains_key(name) {
            continue;
        }
        if tensor.dtype().is_some() {
            checkpoint.insert(name.to_owned(), read(name, tensor, Change::Same)?)?;
        } else {
            checkpoint.skipped.push((abridged(name), tensor.kind()));
        }
    }
    for (name, (constant, change)) in &derived.rows {
        if let Some(tensor) = constants.get(constant) {
            checkpoint.insert(name.clone(), read(name, tensor, *change)?)?;
        }
    }

    let Derived { rows, mut doubtful } = derived;
    let used: BTreeSet<&str> = rows.values().map(|(constant, _)| constant.as_str()).collect();
    let mut skipped = 0;
    for (name, tensor) in own.filter(|(name, _)| !is_parameter(name) && !used.contains(name)) {
        if tensor.is_float() && !is_trivial(&read(name, tensor, Change::Same)?) {
            return Err(doubtful.remove(name).unwrap_or_else(|| unexplained(tensor)));
        }
        skipped += 1;
    }
    if skipped > 0 {
        let what = "numbers that the graph computes with, and no weights";
        let plural = if skipped == 1 { "" } else { "s" };
        checkpoint.skipped.push((format!("{skipped} constant{plural}"), what.to_owned()));
    }
    Ok(checkpoint)
}

/// The files beside a graph that hold its arrays.
pub(super) fn files_of(source: &Source, path: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut budget = Budget::for_file(source.len());
    let mut graph = Model::read(source, &mut budget)?.graph;
    let constants = Constants::of(&mut graph, &mut budget)?;
    let names = files(&constants.tensors)?;
    Ok(names.into_iter().map(|name| path.with_file_name(name)).collect())
}

fn files(tensors: &[Tensor]) -> Result<BTreeSet<&str>, Fault> {
    let files: BTreeSet<&str> = tensors.iter().filter_map(Tensor::file).collect();
    if files.len() > MOST_FILES {
        let expected = format!("at most {MOST_FILES} files");
        return Err(Fault::invalid("external data", expected, files.len()));
    }
    Ok(files)
}

fn changed(array: Array, change: Change) -> Result<Array, Fault> {
    match change {
        Change::Same => Ok(array),
        Change::Transposed => Ok(array.transposed(&[1, 0])),
        Change::Flat => Ok(Array { shape: vec![array.data.len()], ..array }),
        Change::FirstImage => {
            let row = array.data.len() / array.shape[0].max(1);
            if row > 0 && array.data.chunks(row).any(|other| other != &array.data[..row]) {
                let found = "tokens that differ from image to image";
                return Err(Fault::invalid("class token", "one for all images", found));
            }
            let mut shape = array.shape;
            shape[0] = 1;
            Ok(Array { shape, dtype: array.dtype, data: array.data[..row].to_vec() })
        }
    }
}

/// Whether an array can be a number of the computation, a mask that hides nothing, or the bias of a layer without one.
fn is_trivial(array: &Array) -> bool {
    let all = |value: f32| array.data.iter().all(|x| *x == value);
    array.data.len() <= 1 || all(0.0) || all(1.0)
}

fn unexplained(tensor: &Tensor) -> Fault {
    let expected = format!(
        "the name of a parameter, or a layer that names it by its bias or its module (export with a dynamic batch and \
         without optimisation, or {WAY_OUT})"
    );
    let shape = tensor.shape().unwrap_or_default();
    Fault::invalid("constant", expected, format!("{:?} of shape {shape:?}", tensor.name))
}
