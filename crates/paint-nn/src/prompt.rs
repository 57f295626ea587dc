//! The prompt memory of PAINT (section "Dynamic Prompt Allocation", Eq. 2-5 and 11).
//!
//! There is one prompt per domain, found without knowing the domain: every sample of a batch votes for the prompt
//! whose key is most similar to its query feature. If the winner is not similar enough on average, a new prompt is
//! allocated. With [`Scale::Relative`] the batch votes as one.
//!
//! Symbols: `q_i` query of sample `i`, `q̄` their mean, `(k_j, P_j)` key and prompt, `s` the winner, `r_s` its
//! reliability, `η` the threshold, `γ` the smoothing of keys.
//!
//! 1. [`PromptMemory::select`]: retrieval (Eq. 2), vote (Eq. 3), reliability (Eq. 4), allocation (Eq. 5).
//! 2. The caller tunes the prompt: [`PromptMemory::prompts_mut`] is a [`Params`] like the model's own.
//! 3. [`PromptMemory::update_key`]: moving average of the winner's key (Eq. 11).
//!
//! # Fidelity
//! - The paper allocates if `r_s < η` and divides by the number of queries. The released code allocates if `r_s ≤ η`
//!   and divides by the number of images of the forward pass, which is smaller for mixed samples ([`Threshold`],
//!   [`Reliability`]).
//! - The paper moves the key once per batch, the code at every forward pass; the caller decides.
//! - Ties in the vote go to the lowest index; the code leaves them open.
//! - Keys may be compared by distance, with `η` relative to what chance would give, in place of a cosine that suits one
//!   model (ours, [`Scale`], `prompt/distance.rs`).
//! - The code fails at the sixteenth prompt. This memory grows or, with a `capacity`, merges the two prompts with the
//!   nearest keys (ours).

mod config;
mod distance;
mod merge;
mod queries;

pub use config::{PromptConfig, Reliability, Scale, Threshold};
pub use queries::Queries;

use paint_tensor::{Device, Tensor};

use crate::error::{Error, Result};
use crate::params::{ParamId, Params, Role};
use crate::state::State;
use queries::{cosine, unit};

/// The prompt that a batch uses, and how it was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The prompt's number; a number is never given twice.
    pub id: u64,
    /// Whether it was allocated for this batch.
    pub allocated: bool,
    /// `r_s` of the winner; none if there was no vote.
    pub reliability: Option<f32>,
    /// The votes for each prompt held at the time of the vote, by position.
    pub votes: Vec<usize>,
    /// The prompts that were merged to make room: (kept, removed).
    pub merged: Option<(u64, u64)>,
}

#[derive(Debug, Clone)]
struct Entry {
    id: u64,
    key: Vec<f32>,
    uses: u64,
}

/// The first values of a new prompt: given their number, returns them.
pub type Draw<'a> = &'a mut dyn FnMut(usize) -> Vec<f32>;

/// Keys and prompts of the domains met so far.
#[derive(Debug, Clone)]
pub struct PromptMemory {
    config: PromptConfig,
    device: Device,
    entries: Vec<Entry>,
    prompts: Params,
    next_id: u64,
}

impl PromptMemory {
    /// An empty memory.
    pub fn new(config: PromptConfig, device: &Device) -> Result<Self> {
        if config.capacity.is_some_and(|capacity| capacity < 2) {
            let got = format!("{:?}", config.capacity);
            return Err(Error::Argument {
                what: "prompt capacity",
                expected: "2 or more".into(),
                got,
            });
        }
        Ok(Self {
            config,
            device: device.clone(),
            entries: Vec::new(),
            prompts: Params::default(),
            next_id: 0,
        })
    }

    /// How many prompts are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no prompt is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many prompts were allocated in total.
    pub fn allocated(&self) -> u64 {
        self.next_id
    }

    /// The numbers of the prompts held, by position.
    pub fn ids(&self) -> Vec<u64> {
        self.entries.iter().map(|entry| entry.id).collect()
    }

    /// The key of a prompt.
    pub fn key(&self, id: u64) -> Option<&[f32]> {
        self.entries.iter().find(|entry| entry.id == id).map(|entry| entry.key.as_slice())
    }

    /// A prompt's tokens, `[P, D]`.
    pub fn prompt(&self, id: u64) -> Result<&Tensor> {
        Ok(&self.prompts[self.param(id)?])
    }

    /// All prompts as parameters, to track and to update.
    pub fn prompts_mut(&mut self) -> &mut Params {
        &mut self.prompts
    }

    /// Retrieval and vote without allocation; none if the memory is empty. `images` is the number of images of the
    /// forward pass.
    pub fn lookup(&self, queries: &Queries, images: usize) -> Result<Option<Selection>> {
        let Some(first) = self.entries.first() else { return Ok(None) };
        queries.expect_width(first.key.len())?;
        let (votes, s, reliability) = match self.config.scale {
            Scale::Absolute => self.by_cosine(queries, images),
            Scale::Relative => self.by_distance(queries),
        };
        Ok(Some(Selection {
            id: self.entries[s].id,
            allocated: false,
            reliability: Some(reliability),
            votes,
            merged: None,
        }))
    }

    /// The votes for each key, the winner and its `r_s`.
    fn by_cosine(&self, queries: &Queries, images: usize) -> (Vec<usize>, usize, f32) {
        // 1. Eq. 2: each sample retrieves the key with the largest cosine.
        let keys: Vec<Vec<f32>> = self.entries.iter().map(|entry| unit(&entry.key)).collect();
        let mut votes = vec![0; keys.len()];
        for query in queries.units() {
            let similarity: Vec<f32> = keys.iter().map(|key| cosine(query, key)).collect();
            votes[first_maximum(&similarity)] += 1;
        }
        // 2. Eq. 3: the majority decides.
        let s = first_maximum(&votes);
        // 3. Eq. 4: the mean similarity to the winner.
        let sum: f64 = queries.units().map(|query| f64::from(cosine(query, &keys[s]))).sum();
        let denominator = match self.config.reliability {
            Reliability::OverQueries => queries.len(),
            Reliability::OverImages => images.max(1),
        };
        (votes, s, (sum / denominator as f64) as f32)
    }

    /// Retrieval, vote, and a new prompt if the winner is not reliable.
    pub fn select(
        &mut self,
        queries: &Queries,
        images: usize,
        draw: Draw<'_>,
    ) -> Result<Selection> {
        let found = self.lookup(queries, images)?;
        // 4. Eq. 5: below η the samples come from a new domain.
        let PromptConfig { eta, threshold, .. } = self.config;
        let unreliable = |selection: &Selection| match threshold {
            Threshold::Below => selection.reliability.is_none_or(|r| r < eta),
            Threshold::AtOrBelow => selection.reliability.is_none_or(|r| r <= eta),
        };
        match found {
            Some(selection) if !unreliable(&selection) => {
                self.count_use(selection.id);
                Ok(selection)
            }
            found => {
                let merged = self.make_room()?;
                let id = self.allocate(self.next_id, queries, draw)?;
                let (reliability, votes) =
                    found.map_or((None, Vec::new()), |found| (found.reliability, found.votes));
                Ok(Selection { id, allocated: true, reliability, votes, merged })
            }
        }
    }

    /// The prompt whose number is the true domain, allocated on first use: the paper's oracle, which ignores the keys.
    pub fn select_oracle(
        &mut self,
        domain: usize,
        queries: &Queries,
        draw: Draw<'_>,
    ) -> Result<Selection> {
        let id = domain as u64;
        let allocated = self.key(id).is_none();
        if allocated {
            self.allocate(id, queries, draw)?;
        } else {
            self.count_use(id);
        }
        Ok(Selection { id, allocated, reliability: None, votes: Vec::new(), merged: None })
    }

    /// `k_s ← γ k_s + (1 − γ) q̄` (Eq. 11), except for a key that this selection allocated.
    pub fn update_key(&mut self, selection: &Selection, queries: &Queries) -> Result<()> {
        let gamma = self.config.gamma;
        let Some(entry) =
            self.entries.iter_mut().find(|entry| entry.id == selection.id && !selection.allocated)
        else {
            return Ok(());
        };
        queries.expect_width(entry.key.len())?;
        for (k, q) in entry.key.iter_mut().zip(queries.mean()) {
            *k = gamma * *k + (1.0 - gamma) * q;
        }
        Ok(())
    }

    /// Forgets every prompt.
    pub fn reset(&mut self) {
        self.entries.clear();
        self.prompts = Params::default();
        self.next_id = 0;
    }

    /// Keys, prompts, numbers and counts.
    pub fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.counters.insert("next_id".into(), self.next_id);
        for (position, entry) in self.entries.iter().enumerate() {
            state.counters.insert(format!("{position:06}/id"), entry.id);
            state.counters.insert(format!("{position:06}/uses"), entry.uses);
            let key = Tensor::from_vec(entry.key.clone(), [entry.key.len()], &self.device)?;
            state.tensors.insert(format!("{position:06}/key"), key);
            state.tensors.insert(format!("{position:06}/prompt"), self.prompt(entry.id)?.detach());
        }
        Ok(state)
    }

    /// Replaces its state by a saved one. A state with a missing entry is refused.
    pub fn load(&mut self, state: &State) -> Result<()> {
        let mut loaded = Self::new(self.config, &self.device)?;
        loaded.next_id = state.counter("next_id")?;
        let position = |name: &String| name.split_once('/')?.0.parse::<usize>().ok();
        let names = state.counters.keys().chain(state.tensors.keys());
        let count = names.filter_map(position).max().map_or(0, |last| last.saturating_add(1));
        for position in 0..count {
            let id = state.counter(&format!("{position:06}/id"))?;
            let uses = state.counter(&format!("{position:06}/uses"))?;
            let key = state.tensor(&format!("{position:06}/key"))?.to_vec()?;
            loaded.insert(
                Entry { id, key, uses },
                state.tensor(&format!("{position:06}/prompt"))?.clone(),
            )?;
        }
        *self = loaded;
        Ok(())
    }

    fn param(&self, id: u64) -> Result<ParamId> {
        self.prompts.id(&name(id))
    }

    fn count_use(&mut self, id: u64) {
        self.entries.iter_mut().filter(|entry| entry.id == id).for_each(|entry| entry.uses += 1);
    }

    /// Eq. 5: the key is the mean query, and the prompt has fresh values.
    fn allocate(&mut self, id: u64, queries: &Queries, draw: Draw<'_>) -> Result<u64> {
        let shape = [self.config.length, self.config.width];
        let prompt = Tensor::from_vec(draw(shape[0] * shape[1]), shape, &self.device)?;
        self.insert(Entry { id, key: queries.mean().to_vec(), uses: 1 }, prompt)?;
        self.next_id = self.next_id.max(id + 1);
        Ok(id)
    }

    fn insert(&mut self, entry: Entry, prompt: Tensor) -> Result<()> {
        let expected = vec![self.config.length, self.config.width];
        if prompt.shape() != expected {
            return Err(Error::Shape {
                what: name(entry.id),
                expected,
                got: prompt.shape().to_vec(),
            });
        }
        self.prompts.insert(name(entry.id), Role::Prompt, prompt)?;
        self.entries.push(entry);
        Ok(())
    }
}

fn name(id: u64) -> String {
    format!("prompts.{id}")
}

/// The position of the largest value; of equal ones the first.
fn first_maximum<T: PartialOrd + Copy>(values: &[T]) -> usize {
    (1..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

#[cfg(test)]
mod tests;
