//! Optimizers over [`Params`]: parameter groups, a rule, and what the rule remembers of each parameter.
//!
//! An update makes new tensors. Step counts are kept by parameter, as PyTorch does, so that one optimizer can serve a
//! model and a prompt memory one after the other, and a prompt that was not used does not age.

mod sam;
mod update;

pub use sam::Sam;
pub use update::{Adam, Rule, Sgd};

use std::collections::BTreeMap;

use paint_tensor::{Gradients, Tensor};

use crate::error::Result;
use crate::params::{ParamId, Params, Trainable};
use crate::state::State;
use update::Memory;

/// Parameters that share a learning rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Which parameters.
    pub select: Trainable,
    /// Their learning rate.
    pub lr: f32,
}

/// An update rule with its groups and memory.
#[derive(Debug, Clone)]
pub struct Optimizer {
    rule: Rule,
    groups: Vec<Group>,
    memory: BTreeMap<String, Memory>,
}

impl Optimizer {
    /// An optimizer that remembers nothing yet. A parameter belongs to the first group that covers it.
    pub fn new(rule: Rule, groups: Vec<Group>) -> Self {
        Self { rule, groups, memory: BTreeMap::new() }
    }

    /// The groups, for schedules that change a learning rate.
    pub fn groups_mut(&mut self) -> &mut [Group] {
        &mut self.groups
    }

    /// What the groups cover together.
    pub fn trainable(&self) -> Trainable {
        Trainable::Any(self.groups.iter().map(|group| group.select.clone()).collect())
    }

    /// One update. Parameters that no gradient reached or no group covers keep value and memory.
    pub fn step(&mut self, params: &mut Params, gradients: &Gradients) -> Result<()> {
        let gradients = params.gradients(gradients);
        self.apply(params, &gradients)
    }

    /// One update with gradients given by place.
    pub fn apply(&mut self, params: &mut Params, gradients: &[(ParamId, Tensor)]) -> Result<()> {
        for (id, g) in gradients {
            let param = params.param(*id);
            let Some(group) = self.groups.iter().find(|group| group.select.covers(param.role()))
            else {
                continue;
            };
            let memory = self.memory.entry(param.name().to_owned()).or_default();
            let value = self.rule.update(&param.tensor().detach(), g, group.lr, memory)?;
            params.set(*id, &value)?;
        }
        Ok(())
    }

    /// Forgets all moments and step counts.
    pub fn reset(&mut self) {
        self.memory.clear();
    }

    /// Moments and step counts by parameter name.
    pub fn save(&self) -> State {
        let mut state = State::default();
        for (name, memory) in &self.memory {
            state.counters.insert(format!("{name}/step"), memory.step);
            for (moment, tensor) in [("first", &memory.first), ("second", &memory.second)] {
                if let Some(tensor) = tensor {
                    state.tensors.insert(format!("{name}/{moment}"), tensor.clone());
                }
            }
        }
        state
    }

    /// Takes over a saved state in place of its own.
    pub fn load(&mut self, state: &State) {
        let moment =
            |name: &str, moment: &str| state.tensors.get(&format!("{name}/{moment}")).cloned();
        let restored = |(key, step): (&String, &u64)| {
            let name = key.strip_suffix("/step")?;
            let memory = Memory {
                step: *step,
                first: moment(name, "first"),
                second: moment(name, "second"),
            };
            Some((name.to_owned(), memory))
        };
        self.memory = state.counters.iter().filter_map(restored).collect();
    }
}

#[cfg(test)]
mod tests;
