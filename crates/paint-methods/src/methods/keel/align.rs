//! One forward pass with aligned tokens.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use paint_nn::backbone::{AfterBlock, Backbone, Features, Request};
use paint_tensor::{Device, Tensor};

use super::config::Config;
use super::domain::{Domain, blend};
use super::memory::{Keys, Memory};
use super::sums::Sums;
use super::transport::{Counts, Map, evidence};
use crate::Result;
use crate::statistics::{BlockStatistics, PatchStatistics, SourceStatistics, key_of};

/// The most that the deviation of a channel is stretched.
const STRETCH: f64 = 10.0;

/// The source's statistics, and those of the patches where the network is.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    pub(super) statistics: SourceStatistics,
    /// `U` `[r, D]` and `-U μ_s` `[r]` by block.
    bases: Vec<Option<(Tensor, Tensor)>>,
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
        Ok(Self { statistics, bases })
    }
}

/// What a pass found beside its features.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The number of the domain; none where images are clean.
    pub(super) domain: Option<u64>,
    /// The mean of `w` over the aligned blocks.
    pub(super) weight: f64,
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
        unread: RefCell::default(),
        mode,
        reach,
    };
    let request = Request { classes, after_block: Some(&aligner), ..Request::default() };
    let features = model.forward_embedded(embedding, &request)?;
    let Aligner { memory, chosen, weights, unread, .. } = aligner;
    let weights = weights.into_inner();
    let weight = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let Some(at) = chosen.get() else { return Ok((features, Found { domain: None, weight })) };
    let domain = &mut memory.into_inner().domains[at];
    Sums::blend(&unread.into_inner(), domain)?;
    Ok((features, Found { domain: Some(domain.id), weight }))
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
    /// `w` of each aligned block.
    weights: RefCell<Vec<f64>>,
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
        let patches = (aligns || index == 0 && has_patches)
            .then(|| tokens.slice(1, prefix, t - prefix))
            .transpose()?;
        if index == 0 {
            self.choose(patches.as_ref(), b)?;
        }
        let Some(at) = self.chosen.get() else { return Ok(tokens) };
        let domain = &mut self.memory.borrow_mut().domains[at];
        let aligned = match &patches {
            Some(patches) if aligns => self.patches(domain, index, patches).map_err(narrow)?,
            _ => None,
        };
        let moved = if prefix > 0 && self.reach == Reach::Full {
            self.cls(domain, index, &tokens.slice(1, 0, 1)?)?
        } else {
            None
        };
        if moved.is_none() && aligned.is_none() {
            return Ok(tokens);
        }
        // Distillation token and registers stay as they are.
        let start = usize::from(moved.is_some());
        let end = if aligned.is_some() { prefix } else { t };
        let between = (start < end).then(|| tokens.slice(1, start, end - start)).transpose()?;
        let parts: Vec<Tensor> = moved.into_iter().chain(between).chain(aligned).collect();
        Ok(match &parts[..] {
            [only] => only.clone(),
            parts => Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)?,
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
    /// Finds the domain, from the keys of the embedding and of block 0.
    fn choose(&self, patches: Option<&Tensor>, b: usize) -> paint_nn::Result<()> {
        let source = &self.reference.statistics;
        let parts: Vec<&Tensor> = [self.embedding].into_iter().chain(patches).collect();
        let keys = Keys::new(key_of(&parts)?, source);
        let memory = &mut **self.memory.borrow_mut();
        self.chosen.set(match self.mode {
            Mode::Look => memory.find(&keys),
            Mode::Learn => {
                let bounds = (self.config.capacity, self.config.memory);
                let is_mixed = self.reach == Reach::Full;
                let found = memory.assign(&keys, is_mixed, source.blocks.len(), bounds);
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

    /// Class tokens `[B, 1, D]`, channel by channel (Eq. 2); none where they stay as they are.
    fn cls(
        &self,
        domain: &mut Domain,
        index: usize,
        cls: &Tensor,
    ) -> paint_nn::Result<Option<Tensor>> {
        let source = &self.reference.statistics.blocks[index];
        let [b, _, d] = cls.dims3("class tokens")?;
        if self.mode == Mode::Learn {
            let rows = cls.to_vec()?;
            let (mut sums, mut squares) = (vec![0.0_f64; d], vec![0.0_f64; d]);
            for row in rows.chunks_exact(d) {
                for ((sum, square), &x) in sums.iter_mut().zip(&mut squares).zip(row) {
                    *sum += f64::from(x);
                    *square += f64::from(x) * f64::from(x);
                }
            }
            let over_batch = |sums: Vec<f64>| sums.iter().map(|s| (s / b as f64) as f32).collect();
            let (mean, square) = (over_batch(sums), over_batch(squares));
            let rho = b as f32 / domain.images as f32;
            let [old_mean, old_square] = &mut domain.cls[index];
            blend(old_mean, mean, rho);
            blend(old_square, square, rho);
        }
        let [mean, square] = &domain.cls[index];
        if mean.is_empty() {
            return Ok(None);
        }
        let (n, n_s) = (domain.images as f64, self.reference.statistics.images as f64);
        let shift: Vec<f64> =
            mean.iter().zip(&source.cls_mean).map(|(m, s)| f64::from(*m) - f64::from(*s)).collect();
        let w = evidence(&shift, &source.cls_var, n, n_s);
        self.weights.borrow_mut().push(w);
        if w == 0.0 {
            return Ok(None);
        }
        let (mut scale, mut added) = (Vec::with_capacity(d), Vec::with_capacity(d));
        for at in 0..d {
            let (m, v_s) = (f64::from(mean[at]), f64::from(source.cls_var[at]));
            let v = (f64::from(square[at]) - m * m).max(1e-8);
            let v = (n * v + self.config.shrinkage * v_s) / (n + self.config.shrinkage);
            let ratio = (v_s / v).sqrt().min(STRETCH);
            scale.push((1.0 + w * (ratio - 1.0)) as f32);
            added.push((w * (f64::from(source.cls_mean[at]) - m * ratio)) as f32);
        }
        scale.extend(added);
        let both = Tensor::from_vec(scale, [2, 1, d], cls.device())?;
        Ok(Some(cls.mul(&both.slice(0, 0, 1)?)?.add(&both.slice(0, 1, 1)?)?))
    }

    /// Patches `[B, N, D]` along the domain's map (Eq. 4); none where they stay as they are.
    fn patches(
        &self,
        domain: &mut Domain,
        index: usize,
        patches: &Tensor,
    ) -> Result<Option<Tensor>> {
        let Reference { statistics, bases } = self.reference;
        let (Some(source), Some((basis, offset))) =
            (&statistics.blocks[index].patch, &bases[index])
        else {
            return Ok(None);
        };
        let projected = patches.linear(basis, Some(offset))?; // [B, N, r]
        if self.mode == Mode::Learn {
            let sums = Sums::of(index, patches, &projected)?;
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
            map.place(source, patches.device())?;
        }
        let Some((turned, added)) = &map.placed else { return Ok(None) };
        Ok(Some(projected.linear_residual(turned, Some(added), patches)?))
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
