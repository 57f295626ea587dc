//! Finding the weights in what `torch.save` was given.
//!
//! A state dictionary maps names to tensors. Trainers put it under `state_dict`, `model` or `net` of a larger
//! dictionary with epochs, optimizers and arguments beside it; those are reported, never needed.

use paint_files::{Fault, abridged};

use super::super::array::Array;
use super::super::{Checkpoint, Format};
use super::pickle::{Heap, Node, Tensor, Value};

/// Where trainers put the weights, most specific first.
const USUAL_PLACES: [&str; 11] = [
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "module",
    "weights",
    "state_dict_ema",
    "model_ema",
    "ema",
];
/// Tensors that are not weights.
const NOT_WEIGHTS: [&str; 5] =
    ["optimizer", "optimizer_state_dict", "optim", "scheduler", "lr_scheduler"];
const MAX_DEPTH: usize = 4;

/// The arrays of the state dictionary under `root`, each read by `read`.
pub(super) fn collect(
    format: Format,
    heap: &Heap<'_>,
    root: Value,
    mut read: impl FnMut(&Tensor) -> Result<Array, Fault>,
) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new(format);
    if let Some(Node::Tensor(tensor)) = heap.node(root) {
        checkpoint.insert("array".to_owned(), read(tensor)?)?;
        return Ok(checkpoint);
    }
    let mut trail = Vec::new();
    let dict = find(heap, root, &mut trail)?;
    for outer in trail {
        describe_rest(heap, outer, dict, &mut checkpoint);
    }
    for (key, value) in heap.dict(dict).unwrap_or_default() {
        let Some(name) = heap.text(*key) else { continue };
        match heap.node(*value) {
            Some(Node::Tensor(tensor)) => {
                let array = read(tensor).map_err(|fault| fault.in_array(name))?;
                checkpoint.insert(name.to_owned(), array)?;
            }
            _ => note(heap, name, *value, &mut checkpoint),
        }
    }
    Ok(checkpoint)
}

/// Descends to the dictionary that holds tensors; `trail` gets the dictionaries on the way.
fn find(heap: &Heap<'_>, root: Value, trail: &mut Vec<Value>) -> Result<Value, Fault> {
    let mut here = root;
    for _ in 0..=MAX_DEPTH {
        let Some(items) = heap.dict(here) else {
            let expected = "a dictionary of tensors, as model.state_dict() gives";
            return Err(Fault::invalid("saved object", expected, heap.describe(here)));
        };
        if holds_tensors(heap, here) {
            return Ok(here);
        }
        trail.push(here);
        let inner = |wanted: &str| {
            let named = items.iter().rev().find(|(key, _)| heap.text(*key) == Some(wanted));
            named.map(|(_, value)| *value).filter(|value| heap.dict(*value).is_some())
        };
        if let Some(value) = USUAL_PLACES.into_iter().find_map(inner) {
            here = value;
            continue;
        }
        let mut candidates: Vec<(&str, Value)> = items
            .iter()
            .filter_map(|(key, value)| Some((heap.text(*key)?, *value)))
            .filter(|(key, value)| !NOT_WEIGHTS.contains(key) && heap.dict(*value).is_some())
            .collect();
        // One dictionary under many keys is looked through once, or a small file could keep us busy for hours.
        candidates.sort_by_key(|(_, value)| value.place());
        candidates.dedup_by_key(|(_, value)| value.place());
        candidates.retain(|(_, value)| holds_tensors(heap, *value));
        match candidates[..] {
            [(_, value)] => here = value,
            [] => break,
            [(first, _), (second, _), ..] => {
                let expected =
                    format!("one dictionary of tensors, or one called {}", USUAL_PLACES.join(", "));
                let found = format!("{:?} and {:?}", abridged(first), abridged(second));
                return Err(Fault::invalid("saved object", expected, found));
            }
        }
    }
    let keys: Vec<String> = heap
        .dict(root)
        .unwrap_or_default()
        .iter()
        .take(8)
        .map(|(key, value)| format!("{}: {}", heap.describe(*key), heap.describe(*value)))
        .collect();
    Err(Fault::invalid("saved object", "named tensors", format!("{{{}}}", keys.join(", "))))
}

fn holds_tensors(heap: &Heap<'_>, value: Value) -> bool {
    let tensor = |(key, value): &(Value, Value)| {
        heap.text(*key).is_some() && matches!(heap.node(*value), Some(Node::Tensor(_)))
    };
    heap.dict(value).is_some_and(|items| items.iter().any(tensor))
}

/// What lies beside the weights.
fn describe_rest(heap: &Heap<'_>, outer: Value, weights: Value, checkpoint: &mut Checkpoint) {
    for (key, value) in heap.dict(outer).unwrap_or_default() {
        if let Some(name) = heap.text(*key)
            && *value != weights
        {
            note(heap, name, *value, checkpoint);
        }
    }
}

/// Plain values become metadata, anything else is listed as skipped.
fn note(heap: &Heap<'_>, name: &str, value: Value, checkpoint: &mut Checkpoint) {
    match (value, heap.text(value)) {
        (Value::Node(_), Some(text)) => {
            checkpoint.metadata.insert(abridged(name), abridged(text));
        }
        (Value::Node(_), None) => checkpoint.skipped.push((abridged(name), heap.describe(value))),
        _ => {
            checkpoint.metadata.insert(abridged(name), heap.describe(value));
        }
    }
}
