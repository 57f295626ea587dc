//! A computation that is the same every time: only the values of its inputs differ.

use std::sync::{Mutex, PoisonError};

use crate::backend::{Recording, Storage};
use crate::{Device, Error, Result, Tensor};

/// A computation of fixed shape that is asked for again and again, such as the forward pass of a frozen model.
///
/// The second call in a row with inputs of the same shapes is recorded, if the device can record and gains by it
/// ([`Self::after`] takes more of them). Such calls are replayed from then on, which costs the host next to nothing. All
/// other calls are simply computed.
pub struct Routine {
    /// Equal calls in a row before one is recorded.
    patience: u32,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    last: Call,
    /// How many calls in a row equalled the one before them.
    repeats: u32,
    /// Shapes of inputs with which the computation cannot be recorded, or gains nothing.
    refused: Option<Shapes>,
    recorded: Option<Recorded>,
}

type Shapes = Vec<Vec<usize>>;

/// What calls have in common that are the same computation.
#[derive(Debug, Clone, Default, PartialEq)]
struct Call {
    inputs: Shapes,
    /// Where the weights are that the caller names.
    weights: Vec<u64>,
}

struct Recorded {
    device: Device,
    call: Call,
    /// The weights that the caller names, so that no others come to lie where they are.
    _weights: Vec<Tensor>,
    outputs: Shapes,
    recording: Recording,
}

fn shapes<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Shapes {
    tensors.into_iter().map(|tensor| tensor.shape().to_vec()).collect()
}

impl Default for Routine {
    fn default() -> Self {
        Self::after(1)
    }
}

impl Routine {
    /// One that records a call once so many in a row have equalled the one before them. A recording takes as long as a
    /// few calls.
    pub fn after(repeats: u32) -> Self {
        Self { patience: repeats, known: Mutex::default() }
    }

    /// What `compute` returns for these inputs, detached.
    ///
    /// `compute` must return the same for the same inputs. Besides them it should read only tensors that stay the same
    /// from call to call, such as the weights of a frozen model: a replay reads the very tensors that were recorded. A
    /// recording keeps those tensors alive, and is discarded once their owner drops one of them, so that a tensor
    /// exchanged for another costs a new recording. Only if the old one lives on elsewhere is it still the one that is
    /// read. Work inside `compute` may be tracked, and its results may be gradients.
    pub fn run<E: From<Error>>(
        &self,
        inputs: &[&Tensor],
        compute: impl Fn(&[Tensor]) -> std::result::Result<Vec<Tensor>, E>,
    ) -> std::result::Result<Vec<Tensor>, E> {
        self.run_with(inputs, [], compute)
    }

    /// The same where `compute` reads `weights` as well, which are seldom exchanged: a call with other ones is computed,
    /// and recorded anew when it is repeated.
    pub fn run_with<'a, E: From<Error>>(
        &self,
        inputs: &[&Tensor],
        weights: impl IntoIterator<Item = &'a Tensor>,
        compute: impl Fn(&[Tensor]) -> std::result::Result<Vec<Tensor>, E>,
    ) -> std::result::Result<Vec<Tensor>, E> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let weights: Vec<&Tensor> = weights.into_iter().collect();
        let places = weights.iter().map(|weight| weight.storage().place()).collect();
        let call = Call { inputs: shapes(inputs.iter().copied()), weights: places };
        known.note(&call);
        // Inside another recording this computation is part of that one.
        let device = same_device(inputs).filter(|device| !device.backend().is_recording());
        if let Some(device) = device {
            known.discard_stale(&call);
            let is_refused = known.refused.as_ref() == Some(&call.inputs);
            if known.repeats >= self.patience && !is_refused && !known.replays(&call) {
                // If recording fails, for whatever reason, the computation itself can still be done.
                known.recorded =
                    Recorded::make(&device, inputs, (&call, &weights), &compute).unwrap_or(None);
                known.refused = known.recorded.is_none().then(|| call.inputs.clone());
            }
            if let Some(recorded) = known.recorded.as_ref().filter(|it| it.call == call)
                && let Some(outputs) = recorded.replay(&device, inputs)?
            {
                return Ok(outputs);
            }
        }
        drop(known);
        let inputs: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
        Ok(compute(&inputs)?.iter().map(Tensor::detach).collect())
    }

    /// Whether calls like the last one are replayed.
    pub fn is_recorded(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.replays(&known.last)
    }
}

/// The device of all inputs; none if there are no inputs, or several devices.
fn same_device(inputs: &[&Tensor]) -> Option<Device> {
    let (first, others) = inputs.split_first()?;
    let same = |other: &&Tensor| first.device().check_same(other.device(), "routine").is_ok();
    others.iter().all(same).then(|| first.device().clone())
}

impl Known {
    fn replays(&self, call: &Call) -> bool {
        self.recorded.as_ref().is_some_and(|recorded| recorded.call == *call)
    }

    fn note(&mut self, call: &Call) {
        if self.last == *call {
            self.repeats = self.repeats.saturating_add(1);
        } else {
            self.last.clone_from(call);
            self.repeats = 0;
        }
    }

    /// Forgets a recording that reads a tensor which is gone, or other weights than a call has.
    fn discard_stale(&mut self, call: &Call) {
        self.recorded.take_if(|recorded| {
            let backend = recorded.device.backend();
            recorded.call.weights != call.weights || backend.is_stale(&recorded.recording)
        });
    }
}

impl Recorded {
    fn make<E>(
        device: &Device,
        inputs: &[&Tensor],
        (call, weights): (&Call, &[&Tensor]),
        compute: &impl Fn(&[Tensor]) -> std::result::Result<Vec<Tensor>, E>,
    ) -> Result<Option<Self>> {
        let output_shapes = Mutex::new(Shapes::new());
        let on_storages = |places: Vec<Storage>| {
            let tensors = places.into_iter().zip(inputs).map(|(place, input)| {
                Tensor::frozen(input.shape().to_vec(), place, device.clone())
            });
            let outputs = compute(&tensors.collect::<Vec<_>>()).ok()?;
            *output_shapes.lock().unwrap_or_else(PoisonError::into_inner) = shapes(&outputs);
            Some(outputs.into_iter().map(Tensor::into_storage).collect())
        };
        let storages: Vec<&Storage> = inputs.iter().map(|input| input.storage()).collect();
        let recording = device.backend().record(&storages, &on_storages)?;
        let outputs = output_shapes.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(recording.map(|recording| Self {
            device: device.clone(),
            call: call.clone(),
            _weights: weights.iter().map(|weight| weight.detach()).collect(),
            outputs,
            recording,
        }))
    }

    /// What the recording returns; none for inputs on another device, or stored otherwise than those it was made with.
    fn replay(&self, device: &Device, inputs: &[&Tensor]) -> Result<Option<Vec<Tensor>>> {
        if self.device.check_same(device, "routine").is_err() {
            return Ok(None);
        }
        let storages: Vec<&Storage> = inputs.iter().map(|input| input.storage()).collect();
        let outputs = device.backend().replay(&self.recording, &storages)?;
        let tensor = |(shape, storage): (&Vec<usize>, Storage)| {
            Tensor::frozen(shape.clone(), storage, device.clone())
        };
        Ok(outputs.map(|outputs| self.outputs.iter().zip(outputs).map(tensor).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routine_gives_what_its_computation_gives_whatever_came_before() {
        let device = Device::cpu();
        let routine = Routine::default();
        for (step, len) in [2, 2, 3, 2, 3, 3, 3, 3].into_iter().enumerate() {
            let x = Tensor::full([len], step as f32, &device).unwrap();
            let square =
                |inputs: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![inputs[0].mul(&inputs[0])?]) };
            let outputs = routine.run(&[&x.variable()], square).unwrap();
            assert_eq!(outputs[0].to_vec().unwrap(), vec![(step * step) as f32; len]);
            assert!(!outputs[0].requires_grad());
        }
    }

    #[test]
    fn the_error_of_a_computation_reaches_the_caller_every_time() {
        let routine = Routine::default();
        let x = Tensor::zeros([2], &Device::cpu()).unwrap();
        for _ in 0..4 {
            let wrong =
                |inputs: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![inputs[0].reshape([3])?]) };
            assert!(routine.run(&[&x], wrong).is_err());
        }
    }
}
