//! What is known of one domain.

use std::sync::Arc;

use paint_nn::state::State;
use paint_tensor::{Device, Tensor};

use super::transport::Map;
use crate::statistics::{PatchStatistics, SourceStatistics};
use crate::{Error, Result};

/// One domain: its key, and the running statistics of its tokens.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    /// Its number; a number is never given twice.
    pub(super) id: u64,
    /// `k_j`, the mean of its images' keys.
    pub(super) key: Vec<f32>,
    /// `n_j` of the key, bounded.
    pub(super) key_images: u64,
    /// `s_j`, the variance of an image's key around `k_j`, mean over channels.
    pub(super) spread: f32,
    /// The probability that the present images belong to it.
    pub(super) weight: f32,
    /// `n` of the statistics, bounded.
    pub(super) images: u64,
    /// All images that it has seen.
    pub(super) seen: u64,
    /// Mean and mean square of the class token by block, `[2, D]`, on the device of the network; none until the first
    /// is seen.
    pub(super) cls: Vec<Option<Tensor>>,
    /// The patches by block; shared with the clone that undoes a step until they differ.
    pub(super) patches: Vec<Arc<Patches>>,
}

/// The patches of a domain after one block.
#[derive(Debug, Clone, Default)]
pub(super) struct Patches {
    /// `m`, `[D]`; empty until the first is seen.
    pub(super) mean: Vec<f32>,
    /// `E[P Pᵀ]` of `P = U (x - μ_s)`, `[r, r]`.
    pub(super) square: Vec<f32>,
    /// The map that was made last.
    pub(super) map: Option<Map>,
}

/// Moves `old` towards `new`, or takes it where there is none.
pub(super) fn blend(old: &mut Vec<f32>, new: Vec<f32>, rho: f32) {
    if old.is_empty() {
        *old = new;
    } else {
        old.iter_mut().zip(new).for_each(|(old, new)| *old += rho * (new - *old));
    }
}

impl Domain {
    pub(super) fn new(id: u64, key: Vec<f32>, blocks: usize) -> Self {
        Self {
            id,
            key,
            key_images: 0,
            spread: 1.0,
            weight: 1.0,
            images: 0,
            seen: 0,
            cls: vec![None; blocks],
            patches: vec![Arc::default(); blocks],
        }
    }

    /// Takes the images of `other` as its own.
    pub(super) fn absorb(&mut self, other: Self) -> Result<()> {
        let share = |a: u64, b: u64| if a + b == 0 { 0.5 } else { b as f32 / (a + b) as f32 };
        let rho = share(self.key_images, other.key_images);
        blend(&mut self.key, other.key, rho);
        self.spread += rho * (other.spread - self.spread);
        self.key_images += other.key_images;
        self.weight += other.weight;
        let rho = share(self.images, other.images);
        let join = |old: &mut Vec<f32>, new: Vec<f32>| {
            if !new.is_empty() {
                blend(old, new, rho);
            }
        };
        for (old, new) in self.cls.iter_mut().zip(other.cls) {
            *old = match (old.take(), new) {
                (Some(old), Some(new)) => Some(old.lerp(&new, rho)?),
                (old, new) => old.or(new),
            };
        }
        for (old, new) in self.patches.iter_mut().zip(other.patches) {
            let old = Arc::make_mut(old);
            join(&mut old.mean, new.mean.clone());
            join(&mut old.square, new.square.clone());
            old.map = None;
        }
        self.images += other.images;
        self.seen += other.seen;
        Ok(())
    }

    /// Everything, under names of its own.
    pub(super) fn save(&self) -> Result<State> {
        let mut state = State::default();
        for (name, count) in [
            ("id", self.id),
            ("key_images", self.key_images),
            ("images", self.images),
            ("seen", self.seen),
        ] {
            state.counters.insert(name.into(), count);
        }
        let mut put = |name: String, data: &[f32]| -> Result<()> {
            if !data.is_empty() {
                state
                    .tensors
                    .insert(name, Tensor::from_vec(data.to_vec(), [data.len()], &Device::cpu())?);
            }
            Ok(())
        };
        put("key".into(), &self.key)?;
        put("spread".into(), &[self.spread, self.weight])?;
        for (i, moments) in self.cls.iter().enumerate() {
            let Some(moments) = moments else { continue };
            let moments = moments.to_vec()?;
            let (mean, square) = moments.split_at(moments.len() / 2);
            put(format!("cls.{i}.mean"), mean)?;
            put(format!("cls.{i}.square"), square)?;
        }
        for (i, patches) in self.patches.iter().enumerate() {
            put(format!("patch.{i}.mean"), &patches.mean)?;
            put(format!("patch.{i}.square"), &patches.square)?;
            if let Some(map) = &patches.map {
                put(format!("patch.{i}.map.centre"), &map.centre)?;
                put(format!("patch.{i}.map.turn"), &map.turn)?;
                put(format!("patch.{i}.map.weight"), &[map.weight])?;
            }
        }
        for (i, map) in
            self.patches.iter().enumerate().filter_map(|(i, p)| Some((i, p.map.as_ref()?)))
        {
            state.counters.insert(format!("patch.{i}.map.seen"), map.seen);
        }
        Ok(state)
    }

    /// What [`Domain::save`] gave, for a network with these statistics on a device.
    pub(super) fn load(state: &State, source: &SourceStatistics, device: &Device) -> Result<Self> {
        let blocks = source.blocks.len();
        let take = |name: &str, len: usize| -> Result<Vec<f32>> {
            let Some(tensor) = state.tensors.get(name) else { return Ok(Vec::new()) };
            let found = tensor.to_vec()?;
            if found.len() != len || found.iter().any(|x| !x.is_finite()) {
                let (expected, found) =
                    (format!("{len} finite numbers in {name:?}"), format!("{}", found.len()));
                return Err(Error::State { expected, found });
            }
            Ok(found)
        };
        let must = |name: &str, len: usize| {
            state.tensor(name)?;
            take(name, len)
        };
        let d = source.width;
        let mut domain = Self::new(state.counter("id")?, must("key", 4 * d)?, blocks);
        (domain.key_images, domain.images) =
            (state.counter("key_images")?, state.counter("images")?);
        domain.seen = state.counter("seen")?;
        let spread = must("spread", 2)?;
        (domain.spread, domain.weight) = (spread[0], spread[1]);
        for i in 0..blocks {
            let mean = take(&format!("cls.{i}.mean"), d)?;
            if !mean.is_empty() {
                let both = [mean, must(&format!("cls.{i}.square"), d)?].concat();
                domain.cls[i] = Some(Tensor::from_vec(both, [2, d], device)?);
            }
            let r = source.blocks[i].patch.as_ref().map_or(0, PatchStatistics::rank);
            let patches = Arc::make_mut(&mut domain.patches[i]);
            patches.mean = take(&format!("patch.{i}.mean"), d)?;
            patches.square = take(&format!("patch.{i}.square"), r * r)?;
            if let Some(&seen) = state.counters.get(&format!("patch.{i}.map.seen")) {
                let name = |what: &str| format!("patch.{i}.map.{what}");
                let centre = must(&name("centre"), d)?;
                let (turn, weight) = (must(&name("turn"), r * r)?, must(&name("weight"), 1)?[0]);
                patches.map = Some(Map { seen, centre, turn, weight, placed: None });
            }
        }
        Ok(domain)
    }
}
