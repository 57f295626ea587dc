//! Makes room in a bounded memory: the two entries with the nearest keys are merged.

use super::distance::square_distance;
use super::queries::{cosine, unit};
use super::{PromptMemory, Scale, first_maximum, name};
use crate::error::Result;
use crate::params::{Params, Role};

impl PromptMemory {
    /// If the memory is full, merges the two entries with the nearest keys, each weighted by its uses.
    pub(super) fn make_room(&mut self) -> Result<Option<(u64, u64)>> {
        if self.config.capacity.is_none_or(|capacity| self.entries.len() < capacity) {
            return Ok(None);
        }
        let pairs: Vec<(usize, usize)> =
            (0..self.entries.len()).flat_map(|j| (0..j).map(move |i| (i, j))).collect();
        let key = |at: usize| self.entries[at].key.as_slice();
        let nearness = |&(i, j): &(usize, usize)| match self.config.scale {
            Scale::Absolute => f64::from(cosine(&unit(key(i)), &unit(key(j)))),
            Scale::Relative => -square_distance(key(i), key(j)),
        };
        let (i, j) = pairs[first_maximum(&pairs.iter().map(nearness).collect::<Vec<f64>>())];
        let given_up = self.entries.remove(j);
        let prompt = self.prompt(given_up.id)?.detach();
        let kept = &mut self.entries[i];
        let weight = given_up.uses as f32 / (kept.uses + given_up.uses) as f32;
        for (k, other) in kept.key.iter_mut().zip(&given_up.key) {
            *k += weight * (other - *k);
        }
        kept.uses += given_up.uses;
        let ids = (kept.id, given_up.id);
        let merged = self.prompt(ids.0)?.detach().lerp(&prompt, weight)?;
        let mut prompts = Params::default();
        for entry in &self.entries {
            let value =
                if entry.id == ids.0 { merged.clone() } else { self.prompt(entry.id)?.detach() };
            prompts.insert(name(entry.id), Role::Prompt, value)?;
        }
        self.prompts = prompts;
        Ok(Some(ids))
    }
}
