//! Optimizers over [`Params`]: parameter groups, an update rule, and the state of the rule for each parameter.
//!
//! An update makes new tensors; parameters with the same step count are updated in one launch. Step counts are kept
//! per parameter, as in PyTorch. One optimizer can therefore serve a model and then a prompt memory, and the step
//! count of a prompt that was not used stays.

mod sam;
mod update;

pub use sam::Sam;
pub use update::{Adam, Rule, Sgd};

use std::collections::{BTreeMap, BTreeSet};

use paint_tensor::{Gradients, StepParam, Tensor, TrainingStep};

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

/// A parameter during a step.
struct Stepping<'a> {
    id: ParamId,
    value: Tensor,
    grad: &'a Tensor,
    memory: Memory,
    lr: f32,
}

impl Stepping<'_> {
    fn slot(&self, weight_decay: f32) -> StepParam<'_> {
        StepParam {
            value: &self.value,
            grad: self.grad,
            first: self.memory.first.as_ref(),
            second: self.memory.second.as_ref(),
            average: None,
            lr: self.lr,
            weight_decay,
        }
    }
}

/// An update rule with its groups and state.
#[derive(Debug, Clone)]
pub struct Optimizer {
    rule: Rule,
    groups: Vec<Group>,
    memory: BTreeMap<String, Memory>,
}

impl Optimizer {
    /// An optimizer without state. A parameter belongs to the first group that covers it.
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

    /// One update. Parameters without a gradient or a group keep their value and state.
    pub fn step(&mut self, params: &mut Params, gradients: &Gradients) -> Result<()> {
        let gradients = params.gradients(gradients);
        self.apply(params, &gradients)
    }

    /// One update with gradients given by position.
    pub fn apply(&mut self, params: &mut Params, gradients: &[(ParamId, Tensor)]) -> Result<()> {
        let mut by_age: BTreeMap<u64, Vec<Stepping<'_>>> = BTreeMap::new();
        for (id, grad) in gradients {
            let param = params.param(*id);
            let covers = |group: &&Group| group.select.covers(param.role());
            let Some(&Group { lr, .. }) = self.groups.iter().find(covers) else { continue };
            let memory = self.memory.get(param.name()).cloned().unwrap_or_default();
            let stepping = Stepping { id: *id, value: param.tensor().detach(), grad, memory, lr };
            by_age.entry(stepping.memory.step).or_default().push(stepping);
        }
        for (age, together) in by_age {
            let (rule, weight_decay) = self.rule.step(age + 1);
            let slots: Vec<StepParam<'_>> =
                together.iter().map(|stepping| stepping.slot(weight_decay)).collect();
            let step = TrainingStep { rule, clip: None, average_decay: 0.0 };
            let (stepped, _) = step.apply(&slots)?;
            for (Stepping { id, .. }, new) in together.iter().zip(stepped) {
                let name = params.param(*id).name().to_owned();
                self.memory.insert(name, self.rule.memory(age + 1, &new));
                params.set(*id, &new.value)?;
            }
        }
        Ok(())
    }

    /// Clears all moments and step counts.
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

    /// Replaces its state by a saved one. A state that lacks a step count or a moment of this rule is refused, because
    /// the parameter would silently start from nothing.
    pub fn load(&mut self, state: &State) -> Result<()> {
        let names = state.counters.keys().chain(state.tensors.keys());
        let names: BTreeSet<&str> =
            names.filter_map(|name| Some(name.rsplit_once('/')?.0)).collect();
        let restored = |name: &str| {
            let [first, second] = self.rule.moments();
            let moment = |moment: &str| state.tensor(&format!("{name}/{moment}")).cloned();
            let memory = Memory {
                step: state.counter(&format!("{name}/step"))?,
                first: first.then(|| moment("first")).transpose()?,
                second: second.then(|| moment("second")).transpose()?,
            };
            Ok((name.to_owned(), memory))
        };
        self.memory = names.into_iter().map(restored).collect::<Result<_>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
