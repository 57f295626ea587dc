//! One forward pass with aligned tokens.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use paint_nn::backbone::{AfterBlock, Backbone, Features, Request};
use paint_tensor::{Aligned, Alignment, Device, Tensor};

use super::config::Config;
use super::domain::Domain;
use super::keys::ComingKeys;
use super::memory::Memory;
use super::sums::Sums;
use super::transport::{Counts, Map};
use crate::Result;
use crate::statistics::{BlockStatistics, PatchStatistics, SourceStatistics, style_of};

/// The most that the deviation of a channel is stretched.
const STRETCH: f32 = 10.0;

/// The source's statistics, and those of the patches where the network is.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) statistics: SourceStatistics,
    /// Mean and variance of the class token by block, `[2, D]`.
    cls: Vec<Tensor>,
    /// `U` `[r, D]` and `-U μ_s` `[r]` by block.
    bases: Vec<Option<(Tensor, Tensor)>>,
    /// Mean and deviation of keys, `[1, 4 D]`.
    keys: [Tensor; 2],
    device: Device,
}

impl Reference {
    pub(super) fn new(statistics: SourceStatistics, device: &Device) -> Result<Self> {
        let place = |block: &BlockStatistics| {
            let Some(patch) = &block.patch else { return Ok(None) };
            let (r, d) = (patch.rank(), patch.mean.len());
            let centre: Vec<f64> = patch.mean.iter().map(|&x| f64::from(x)).collect();
            let offset = patch.project(&centre).iter().map(|&x| -x as f32).collect();
            let basis = Tensor::from_vec(patch.basis.clone(), [r, d], device)?;
            Ok(Some((basis, Tensor::from_vec(offset, [r], device)?)))
        };
        let bases = statistics.blocks.iter().map(place).collect::<Result<_>>()?;
        let moments = |block: &BlockStatistics| {
            let both = [&block.cls_mean[..], &block.cls_var].concat();
            Ok(Tensor::from_vec(both, [2, block.cls_mean.len()], device)?)
        };
        let cls = statistics.blocks.iter().map(moments).collect::<Result<_>>()?;
        let row = |data: &[f32]| Tensor::from_vec(data.to_vec(), [1, data.len()], device);
        let keys = [row(&statistics.key_mean)?, row(&statistics.key_std)?];
        Ok(Self { statistics, cls, bases, keys, device: device.clone() })
    }

    /// The statistics, and where the network is.
    pub(super) fn place(&self) -> (&SourceStatistics, &Device) {
        (&self.statistics, &self.device)
    }
}

/// What a pass found beside its features.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The number of the domain; none where images are clean.
    pub(super) domain: Option<u64>,
    /// The mean of `w` over the aligned blocks.
    pub(super) weight: f64,
    /// The logits of a pass that teaches the memory, as the host has read them with everything else.
    pub(super) logits: Vec<f32>,
}

/// Whether a pass teaches the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The domain's statistics follow the batch, which is then aligned with them.
    Learn,
    /// The batch is aligned with what is known.
    Look,
}

/// What is aligned, and on what evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reach {
    /// Class tokens and patches, each image a draw of its own.
    Full,
    /// Patches, on the evidence of at most so many draws: classes come in runs, or may.
    Patches {
        /// The most that count.
        draws: f64,
    },
}

/// Aligned features of a batch, given as its embedding `[B, N, D]`.
pub(super) fn forward(
    model: &dyn Backbone,
    reference: &Reference,
    config: &Config,
    memory: &mut Memory,
    (embedding, classes): (&Tensor, Option<&[usize]>),
    (mode, reach): (Mode, Reach),
) -> Result<(Features, Found)> {
    let aligner = Aligner {
        reference,
        config,
        memory: RefCell::new(memory),
        embedding,
        chosen: Cell::new(None),
        weights: RefCell::default(),
        unread_weights: RefCell::default(),
        unread: RefCell::default(),
        mode,
        reach,
    };
    let request = Request { classes, after_block: Some(&aligner), ..Request::default() };
    let features = model.forward_embedded(embedding, &request)?;
    let Aligner { memory, chosen, weights, unread_weights, unread, .. } = aligner;
    let mut weights = weights.into_inner();
    let (unread_weights, unread) = (unread_weights.into_inner(), unread.into_inner());
    let z = features.logits.reshape([features.logits.elem_count()])?;
    let z: Vec<&Tensor> = [&z].into_iter().filter(|_| mode == Mode::Learn).collect();
    let count = z.iter().map(|z| z.elem_count()).sum();
    let parts = z.into_iter().chain(&unread_weights).chain(Sums::parts(&unread));
    let parts: Vec<&Tensor> = parts.collect();
    let mut logits =
        if parts.is_empty() { Vec::new() } else { Tensor::concat(&parts, 0)?.to_vec()? };
    let rest = logits.split_off(count);
    let (read, sums) = rest.split_at(unread_weights.len());
    weights.extend(read.iter().copied().map(f64::from));
    let weight = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let domain = chosen.get().map(|at| {
        let domain = &mut memory.into_inner().domains[at];
        Sums::blend_read(&unread, sums, domain);
        domain.id
    });
    Ok((features, Found { domain, weight, logits }))
}

/// Tokens in the leading directions of the clean covariance.
struct Projected {
    rows: Tensor,
    /// Of what is learnt.
    sums: Option<Sums>,
}

#[derive(Debug)]
struct Aligner<'a> {
    reference: &'a Reference,
    config: &'a Config,
    memory: RefCell<&'a mut Memory>,
    /// `[B, N, D]`; keys come from it and from block 0.
    embedding: &'a Tensor,
    /// The place of the domain, from block 0 on; none where images are clean.
    chosen: Cell<Option<usize>>,
    /// `w` of the patches of each aligned block.
    weights: RefCell<Vec<f64>>,
    /// `w` of the class tokens of each aligned block.
    unread_weights: RefCell<Vec<Tensor>>,
    /// Sums that the pass does not need, for the end of it.
    unread: RefCell<Vec<Sums>>,
    mode: Mode,
    reach: Reach,
}

impl AfterBlock for Aligner<'_> {
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> paint_nn::Result<Tensor> {
        let [b, t, _] = tokens.dims3("tokens")?;
        let last = self.config.first_block + self.config.blocks;
        let has_patches = t > prefix;
        let aligns = has_patches && (self.config.first_block..last).contains(&index);
        let project = || self.project(index, (&tokens, prefix)).map_err(narrow);
        let mut projected = None;
        if index == 0 {
            let keys = self.keys(has_patches.then_some((&tokens, prefix)))?;
            if aligns && keys.are_coming() {
                // Something to do for a GPU while the host waits.
                projected = project()?;
            }
            self.choose(keys, b)?;
        }
        let Some(at) = self.chosen.get() else { return Ok(tokens) };
        if aligns && projected.is_none() {
            projected = project()?;
        }
        let domain = &mut self.memory.borrow_mut().domains[at];
        let aligned = match projected {
            Some(projected) => self.patches(domain, index, &tokens, projected).map_err(narrow)?,
            None => None,
        };
        let moved = if prefix > 0 && self.reach == Reach::Full {
            self.cls(domain, index, &tokens.slice(1, 0, 1)?)?
        } else {
            None
        };
        Ok(match (aligned, moved) {
            (None, None) => tokens,
            (None, Some(cls)) => tokens.with_first_tokens(&cls)?,
            (Some(aligned), None) if prefix == 0 => aligned,
            // Tokens before the patches went along with them and get back what they were: distillation token and
            // registers stay as they are.
            (Some(aligned), None) => aligned.with_first_tokens(&tokens.slice(1, 0, prefix)?)?,
            (Some(aligned), Some(cls)) if prefix == 1 => aligned.with_first_tokens(&cls)?,
            (Some(aligned), Some(cls)) => {
                let rest = tokens.slice(1, 1, prefix - 1)?;
                aligned.with_first_tokens(&Tensor::concat(&[&cls, &rest], 1)?)?
            }
        })
    }
}

/// In a forward pass the engine alone can fail.
fn narrow(error: crate::Error) -> paint_nn::Error {
    match error {
        crate::Error::Nn(error) => error,
        crate::Error::Tensor(error) => error.into(),
        other => paint_nn::Error::Argument {
            what: "aligned tokens",
            expected: "a map".into(),
            got: other.to_string(),
        },
    }
}

impl Aligner<'_> {
    /// The keys, of the embedding and of the patches of block 0.
    fn keys(&self, patches: Option<(&Tensor, usize)>) -> paint_nn::Result<ComingKeys> {
        let parts: Vec<_> = [(self.embedding, 0)].into_iter().chain(patches).collect();
        let clean = self.reference.statistics.images as u64;
        ComingKeys::begin(&style_of(&parts)?, &self.reference.keys, clean)
    }

    /// Finds the domain of `b` images by their keys.
    fn choose(&self, keys: ComingKeys, b: usize) -> paint_nn::Result<()> {
        let (source, keys) = (&self.reference.statistics, keys.finish()?);
        let memory = &mut **self.memory.borrow_mut();
        self.chosen.set(match self.mode {
            Mode::Look => memory.find(&keys),
            Mode::Learn => {
                let bounds = (self.config.capacity, self.config.memory);
                let is_mixed = self.reach == Reach::Full;
                let found =
                    memory.assign(&keys, is_mixed, source.blocks.len(), bounds).map_err(narrow)?;
                if let Some(at) = found {
                    let domain = &mut memory.domains[at];
                    domain.images = domain.images.min(self.config.memory) + b as u64;
                    domain.seen += b as u64;
                }
                found
            }
        });
        Ok(())
    }

    /// Class tokens `[B, 1, D]`, channel by channel (Eq. 1 to 3); none where nothing is known of them.
    fn cls(
        &self,
        domain: &mut Domain,
        index: usize,
        cls: &Tensor,
    ) -> paint_nn::Result<Option<Tensor>> {
        let [b, _, _] = cls.dims3("class tokens")?;
        let running = domain.cls[index].as_ref();
        let share = match self.mode {
            Mode::Learn => b as f32 / domain.images as f32,
            Mode::Look if running.is_none() => return Ok(None),
            Mode::Look => 0.0,
        };
        let by = Alignment {
            share,
            rows: domain.images as f32,
            target_rows: self.reference.statistics.images as f32,
            shrinkage: self.config.shrinkage as f32,
            stretch: STRETCH,
        };
        let Aligned { rows, running, weight } =
            cls.aligned(running, &self.reference.cls[index], &by)?;
        if self.mode == Mode::Learn {
            domain.cls[index] = Some(running);
        }
        self.unread_weights.borrow_mut().push(weight);
        Ok(Some(rows))
    }

    /// `Uᵀ (x - μ_s)` for tokens `[B, T, D]`, of which the first `prefix` are no patches, and the sums that are learnt
    /// from; none where the source has no statistics of patches.
    fn project(
        &self,
        index: usize,
        (tokens, prefix): (&Tensor, usize),
    ) -> Result<Option<Projected>> {
        let Some((basis, offset)) = &self.reference.bases[index] else { return Ok(None) };
        let rows = tokens.linear(basis, Some(offset))?; // [B, T, r]
        let learns = self.mode == Mode::Learn;
        let sums = learns.then(|| Sums::of(index, (tokens, &rows), prefix)).transpose()?;
        Ok(Some(Projected { rows, sums }))
    }

    /// Tokens `[B, T, D]`, those before the patches too, along the domain's map (Eq. 4); none where they stay as they
    /// are.
    fn patches(
        &self,
        domain: &mut Domain,
        index: usize,
        tokens: &Tensor,
        Projected { rows: projected, sums }: Projected,
    ) -> Result<Option<Tensor>> {
        let Some(source) = &self.reference.statistics.blocks[index].patch else { return Ok(None) };
        if let Some(sums) = sums {
            let map = &domain.patches[index].map;
            if map.as_ref().is_some_and(|map| !map.is_stale(domain.seen)) {
                self.unread.borrow_mut().push(sums);
            } else {
                Sums::blend(&[sums], domain)?;
                self.renew(domain, index, source);
            }
        }
        let state = Arc::make_mut(&mut domain.patches[index]);
        let Some(map) = &mut state.map else { return Ok(None) };
        self.weights.borrow_mut().push(f64::from(map.weight));
        if map.weight == 0.0 {
            return Ok(None);
        }
        if map.placed.is_none() {
            map.place(source, tokens.device())?;
        }
        let Some((turned, added)) = &map.placed else { return Ok(None) };
        Ok(Some(projected.linear_residual(turned, Some(added), tokens)?))
    }

    /// Makes the map of a block anew, from the domain's statistics.
    fn renew(&self, domain: &mut Domain, index: usize, source: &PatchStatistics) {
        let (seen, images) = (domain.seen, domain.images as f64);
        let draws = match self.reach {
            Reach::Full => images,
            Reach::Patches { draws } => draws.min(images),
        };
        let clean = self.reference.statistics.images as f64;
        let counts = Counts { seen, images, draws, clean };
        let how = (self.config.strength, self.config.shrinkage);
        let state = Arc::make_mut(&mut domain.patches[index]);
        state.map = Some(Map::new(source, (&state.mean, &state.square), counts, how));
    }
}
