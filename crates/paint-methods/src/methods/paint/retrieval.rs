//! Which prompt a batch gets (Eq. 2 to 5), with a new one where none fits.

use paint_nn::prompt::{PromptMemory, Queries, Selection};

use super::Config;
use crate::draws::Draws;
use crate::{Error, Result};

/// All that decides it, beside the memory.
pub(super) struct Retriever<'a> {
    config: &'a Config,
    draws: &'a dyn Draws,
    domain: Option<usize>,
}

impl<'a> Retriever<'a> {
    pub(super) fn new(config: &'a Config, draws: &'a dyn Draws, domain: Option<usize>) -> Self {
        Self { config, draws, domain }
    }

    /// The prompt of `memory` for a batch; none where prompts are off. `images` is the number of images in the forward that
    /// asks.
    pub(super) fn select(
        &self,
        memory: &mut PromptMemory,
        queries: &Queries,
        images: usize,
    ) -> Result<Option<Selection>> {
        if self.config.prompt_length == 0 {
            return Ok(None);
        }
        let std = self.config.prompt_std as f32;
        let fresh = |id: u64, count| {
            self.draws.prompt(id, count).into_iter().map(|z| std * z).collect::<Vec<f32>>()
        };
        Ok(Some(if self.config.oracle {
            let domain = self.domain.ok_or(Error::NoDomain)?;
            memory.select_oracle(domain, queries, &mut |count| fresh(domain as u64, count))?
        } else {
            let id = memory.allocated();
            memory.select(queries, images, &mut |count| fresh(id, count))?
        }))
    }
}
