//! Which prompt a batch gets (Eq. 2-5), with a new one if none is reliable, and how its key moves (Eq. 11).

use std::sync::Arc;

use paint_nn::prompt::{PromptMemory, Queries, Selection};

use super::config::Config;
use super::quirks::Quirks;
use crate::draws::PromptDraws;
use crate::{Error, Result};

/// Everything that decides it, except the memory.
#[derive(Clone)]
pub(super) struct Retriever {
    oracle: bool,
    prompt_std: f32,
    quirks: Quirks,
    draws: Arc<dyn PromptDraws>,
    /// The true domain of the next batches, for the oracle.
    pub(super) domain: Option<usize>,
}

impl Retriever {
    pub(super) fn new(config: &Config, draws: Arc<dyn PromptDraws>) -> Self {
        Self {
            oracle: config.oracle,
            prompt_std: config.prompt_std as f32,
            quirks: Quirks::of(config),
            draws,
            domain: None,
        }
    }

    /// Whether a prompt may be found among those held; the oracle says where it knows no domain.
    pub(super) fn may_find(&self, memory: &PromptMemory) -> bool {
        self.oracle || !memory.is_empty()
    }

    /// The prompt for a batch among those held; none where prompts are off, and the batch has no queries, or none is
    /// held.
    pub(super) fn find(
        &self,
        memory: &PromptMemory,
        queries: Option<&Queries>,
    ) -> Result<Option<u64>> {
        let Some(queries) = queries else { return Ok(None) };
        if self.oracle {
            let id = self.domain.ok_or(Error::NoDomain)? as u64;
            return Ok(memory.key(id).map(|_| id));
        }
        Ok(memory.lookup(queries, queries.len())?.map(|found| found.id))
    }

    /// The prompt for a batch, allocated where none is reliable; none where prompts are off.
    pub(super) fn select(
        &self,
        memory: &mut PromptMemory,
        queries: Option<&Queries>,
    ) -> Result<Option<Selection>> {
        let Some(queries) = queries else { return Ok(None) };
        let draw = |id: u64, count| {
            let numbers = self.draws.prompt(id, count).into_iter();
            numbers.map(|z| self.prompt_std * z).collect::<Vec<f32>>()
        };
        Ok(Some(if self.oracle {
            let domain = self.domain.ok_or(Error::NoDomain)?;
            memory.select_oracle(domain, queries, &mut |count| draw(domain as u64, count))?
        } else {
            let id = memory.allocated();
            memory.select(queries, queries.len(), &mut |count| draw(id, count))?
        }))
    }

    /// The retrievals of one batch.
    pub(super) fn begin(&self, queries: Option<Queries>) -> Retrievals {
        Retrievals { retriever: self.clone(), queries, selections: Vec::new() }
    }
}

/// The retrievals of one batch. In Algorithm 1 the batch asks the memory once and keeps its prompt, whose key moves
/// after the update. In the released code every forward pass asks anew and moves the key of what it found (D12).
pub(super) struct Retrievals {
    retriever: Retriever,
    /// None where prompts are off.
    queries: Option<Queries>,
    /// What was found, in order.
    pub(super) selections: Vec<Selection>,
}

impl Retrievals {
    /// Step 2: the prompt of the batch.
    pub(super) fn allocate(&mut self, memory: &mut PromptMemory) -> Result<Option<u64>> {
        let Some(selection) = self.retriever.select(memory, self.queries.as_ref())? else {
            return Ok(None);
        };
        self.note(memory, selection).map(Some)
    }

    /// Step 5: the prompt for the mixed samples, `mixed` of them, where nothing is allocated.
    pub(super) fn for_mixed(
        &mut self,
        memory: &mut PromptMemory,
        mixed: usize,
    ) -> Result<Option<u64>> {
        if self.moves_at_every_forward()
            && let Some(queries) = self.queries.clone()
        {
            let first = self.retriever.quirks.repeats_first_forward().then_some(queries.len());
            for images in first.into_iter().chain([mixed]) {
                if let Some(selection) = memory.lookup(&queries, images)? {
                    self.note(memory, selection)?;
                }
            }
        }
        Ok(self.selections.last().map(|selection| selection.id))
    }

    /// Step 7: moves the key (Eq. 11); where every forward pass moves it, it has moved already.
    pub(super) fn update_key(&self, memory: &mut PromptMemory) -> Result<()> {
        let moves = !self.retriever.quirks.retrieves_at_every_forward() && !self.retriever.oracle;
        if let (Some(selection), Some(queries)) =
            (self.selections.first().filter(|_| moves), &self.queries)
        {
            memory.update_key(selection, queries)?;
        }
        Ok(())
    }

    /// Step 8: the prompt for the prediction that counts.
    pub(super) fn for_prediction(&mut self, memory: &mut PromptMemory) -> Result<Option<u64>> {
        if self.retriever.quirks.retrieves_at_every_forward() {
            return self.allocate(memory);
        }
        Ok(self.selections.last().map(|selection| selection.id))
    }

    /// Whether the key moves whenever the memory is asked. The oracle leaves the keys alone.
    fn moves_at_every_forward(&self) -> bool {
        self.retriever.quirks.retrieves_at_every_forward() && !self.retriever.oracle
    }

    fn note(&mut self, memory: &mut PromptMemory, selection: Selection) -> Result<u64> {
        if let Some(queries) = self.queries.as_ref().filter(|_| self.moves_at_every_forward()) {
            memory.update_key(&selection, queries)?;
        }
        self.selections.push(selection);
        Ok(self.selections[self.selections.len() - 1].id)
    }
}
