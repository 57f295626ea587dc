//! What an adaptation has to remember between two runs: named tensors and named counters.
//!
//! Optimizers and the prompt memory write their part; a method joins the parts under prefixes.

pub mod file;

use std::collections::BTreeMap;

use paint_tensor::Tensor;

use crate::error::{Error, Result};

/// A saved state.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Arrays by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Counts by name.
    pub counters: BTreeMap<String, u64>,
}

impl State {
    /// Adds `part` under `prefix/`.
    pub fn nest(&mut self, prefix: &str, part: State) {
        let named = |name| format!("{prefix}/{name}");
        self.tensors.extend(part.tensors.into_iter().map(|(name, tensor)| (named(name), tensor)));
        self.counters.extend(part.counters.into_iter().map(|(name, count)| (named(name), count)));
    }

    /// What was added under `prefix/`, with the prefix taken off.
    #[must_use]
    pub fn part(&self, prefix: &str) -> State {
        let inner = |name: &str| Some(name.strip_prefix(prefix)?.strip_prefix('/')?.to_owned());
        State {
            tensors: self
                .tensors
                .iter()
                .filter_map(|(name, t)| Some((inner(name)?, t.clone())))
                .collect(),
            counters: self
                .counters
                .iter()
                .filter_map(|(name, c)| Some((inner(name)?, *c)))
                .collect(),
        }
    }

    /// A tensor that must be there.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| Error::State { name: name.to_owned() })
    }

    /// A counter that must be there.
    pub fn counter(&self, name: &str) -> Result<u64> {
        self.counters.get(name).copied().ok_or_else(|| Error::State { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_part_comes_back_and_its_neighbours_do_not() {
        let mut part = State::default();
        part.counters.insert("step".into(), 3);
        let mut whole = State::default();
        whole.nest("optim", part);
        whole.counters.insert("optimum/step".into(), 9);
        assert_eq!(whole.part("optim").counters, BTreeMap::from([("step".into(), 3)]));
        assert_eq!(
            whole.part("optim").counter("lr").unwrap_err().to_string(),
            "saved state: expected an entry \"lr\", found none"
        );
    }
}
