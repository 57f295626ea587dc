//! Training on a GPU: only draws and tables of addresses are uploaded, everything else is there already.

use super::buffer::{Buffer, Kind};
use super::compile::Define;
use super::driver::Grid;
use super::elements::{Packing, THREADS};
use super::param::{Read, structures};
use super::{Cuda, on_gpu};
use crate::Result;
use crate::backend::{Compose, Step, StepRule, StepSlot, SteppedSlot, Storage, Training};
use crate::op::images::{Draw, Edge, Rect, Tone, View};

structures! {
    /// Height and width of the stored images and of the batch, and whether images are mirrored at their edges.
    struct Sizes {
        stored_h: i32,
        stored_w: i32,
        h: i32,
        w: i32,
        reflect: i32,
    }

    /// The constants of a step of SGD.
    struct Sgd {
        momentum: f32,
        nesterov: f32,
        average_decay: f32,
    }

    /// The constants of a step of Adam.
    struct Adam {
        beta1: f32,
        beta2: f32,
        eps: f32,
        rate: f32,
        root: f32,
        decoupled: f32,
        average_decay: f32,
    }
}

/// Words of a draw: `struct Draw` of `training.cu`.
pub(super) const DRAW: usize = 32;
/// Words of a parameter's row: `struct Slot` of `training.cu`.
pub(super) const SLOT: usize = 24;
/// Blocks of threads that share a parameter.
const BLOCKS: usize = 32;
/// The same in an update; more, because a few large parameters must fill the GPU.
const UPDATING: usize = 128;

fn tone(tone: Tone) -> Define {
    match tone {
        Tone::Natural => ("TONE_NATURAL", 0),
        Tone::Grey => ("TONE_GREY", 1),
        Tone::Solarized => ("TONE_SOLARIZED", 2),
    }
}

/// The numbers of tones, under the names that the kernels use.
pub(super) fn tones() -> Vec<Define> {
    [Tone::Natural, Tone::Grey, Tone::Solarized].map(tone).to_vec()
}

fn view_words(view: &View) -> [f32; 11] {
    let [a, b, c, d, e, f] = view.matrix;
    let index = f32::from_bits(view.index as u32);
    let tone = tone(view.tone).1 as f32;
    [index, a, b, c, d, e, f, view.brightness, view.contrast, view.saturation, tone]
}

fn draw_words(draw: &Draw) -> [f32; DRAW] {
    let mut words = [0.0; DRAW];
    words[..11].copy_from_slice(&view_words(&draw.first));
    words[11..22].copy_from_slice(&view_words(draw.second.as_ref().unwrap_or(&draw.first)));
    words[22] = if draw.second.is_some() { 1.0 } else { 0.0 };
    words[23] = draw.weight;
    for (at, Rect { top, left, bottom, right }) in [(24, draw.cut), (28, draw.erased)] {
        words[at..at + 4].copy_from_slice(&[top, left, bottom, right].map(|side| side as f32));
    }
    words
}

/// One row of the table that the kernels over all parameters read.
fn slot_words(slot: &StepSlot, new: &NewSlot, grad: &Buffer) -> [u32; SLOT] {
    let old = |x: Option<&Storage>| x.map_or(0, |x| on_gpu(x).address());
    let to = |x: &Option<Buffer>| x.as_ref().map_or(0, Buffer::address);
    let addresses = [
        on_gpu(slot.param).address(),
        grad.address(),
        old(slot.first),
        old(slot.second),
        old(slot.average),
        new.param.address(),
        new.first.address(),
        to(&new.second),
        to(&new.average),
        to(&new.half),
        grad.len() as u64,
    ];
    let mut words = [0; SLOT];
    for (pair, address) in words.as_chunks_mut::<2>().0.iter_mut().zip(addresses) {
        *pair = [address as u32, (address >> 32) as u32];
    }
    words[SLOT - 2] = slot.lr.to_bits();
    words[SLOT - 1] = slot.weight_decay.to_bits();
    words
}

struct NewSlot {
    param: Buffer,
    first: Buffer,
    second: Option<Buffer>,
    average: Option<Buffer>,
    /// The parameter in bf16, which the next forward pass would otherwise make.
    half: Option<Buffer>,
}

impl Cuda {
    fn new_slot(&self, slot: &StepSlot, rule: StepRule) -> Result<NewSlot> {
        let len = slot.param.len();
        let when = |wanted: bool, kind| wanted.then(|| self.take(len, kind)).transpose();
        Ok(NewSlot {
            param: self.take_f32(len)?,
            first: self.take_f32(len)?,
            second: when(matches!(rule, StepRule::Adam { .. }), Kind::F32)?,
            average: when(slot.average.is_some(), Kind::F32)?,
            half: when(self.precision.is_compact(), Kind::Bf16)?,
        })
    }

    /// The norm of all gradients and the factor that clips it, two elements.
    fn clip_factor(&self, table: &Buffer, slots: usize, clip: f32) -> Result<Buffer> {
        let (parts, out) = (self.take_f32(slots * BLOCKS)?, self.take_f32(2)?);
        let grid = Grid::new([BLOCKS, slots, 1], [THREADS as u32, 1]);
        let kernels = &self.kernels.training;
        self.gpu.launch(&kernels.gradient_squares, grid, (table.read(), parts.write()))?;
        let params = (parts.read(), parts.len() as i32, clip, out.write());
        self.gpu.launch(&kernels.clip_factor, Grid::new([1, 1, 1], [1024, 1]), params)?;
        Ok(out)
    }
}

impl Training for Cuda {
    fn compose(&self, compose: &Compose) -> Result<Storage> {
        let Compose { bytes, stored, size, edge, draws } = *compose;
        let out = self.take_f32(draws.len() * 3 * size[0] * size[1])?;
        if out.len() == 0 {
            return Ok(Storage::Cuda(out));
        }
        let words: Vec<f32> = draws.iter().flat_map(draw_words).collect();
        let rows = self.uploaded(&words)?;
        let [stored_h, stored_w, h, w] =
            [stored[0], stored[1], size[0], size[1]].map(|side| side as i32);
        let reflect = i32::from(edge == Edge::Reflect);
        let sizes = Sizes { stored_h, stored_w, h, w, reflect };
        let params = (on_gpu(bytes).read(), rows.read(), out.write(), sizes);
        let grid = Grid::new([draws.len(), 1, 1], [THREADS as u32, 1]);
        self.gpu.launch(&self.kernels.training.compose, grid, params)?;
        Ok(Storage::Cuda(out))
    }

    fn step(&self, step: &Step) -> Result<(Vec<SteppedSlot>, Option<Storage>)> {
        let slots = step.slots;
        let new: Vec<NewSlot> =
            slots.iter().map(|slot| self.new_slot(slot, step.rule)).collect::<Result<_>>()?;
        let grads: Vec<Buffer> =
            slots.iter().map(|slot| self.widened(slot.grad)).collect::<Result<_>>()?;
        let words = slots.iter().zip(&new).zip(&grads);
        let words = words.flat_map(|((slot, new), grad)| slot_words(slot, new, grad));
        let table = self.uploaded(&words.map(f32::from_bits).collect::<Vec<_>>())?;
        let clipped = step.clip.map(|clip| self.clip_factor(&table, slots.len(), clip));
        let clipped = clipped.transpose()?;
        let factor = clipped.as_ref().map_or(Read::NONE, |both| both.part(1, 1).read());
        let (kernels, average_decay) = (&self.kernels.training, step.average_decay);
        let grid = Grid::new([UPDATING, slots.len(), 1], [THREADS as u32, 1]);
        let flag = |on: bool| f32::from(u8::from(on));
        match step.rule {
            StepRule::Sgd { momentum, nesterov } => {
                let rule = Sgd { momentum, nesterov: flag(nesterov), average_decay };
                self.gpu.launch(&kernels.sgd_all, grid, (table.read(), factor, rule))?;
            }
            StepRule::Adam { beta1, beta2, eps, t, decoupled } => {
                let correction = |beta: f32| 1.0 - f64::from(beta).powi(t as i32);
                let rate = (1.0 / correction(beta1)) as f32;
                let root = (1.0 / correction(beta2).sqrt()) as f32;
                let decoupled = flag(decoupled);
                let rule = Adam { beta1, beta2, eps, rate, root, decoupled, average_decay };
                self.gpu.launch(&kernels.adam_all, grid, (table.read(), factor, rule))?;
            }
        }
        let done = |new: NewSlot| {
            if let Some(half) = new.half {
                // The block is new, so it has none yet.
                let _ = new.param.block.half.set(half);
            }
            SteppedSlot {
                param: Storage::Cuda(new.param),
                first: Storage::Cuda(new.first),
                second: new.second.map(Storage::Cuda),
                average: new.average.map(Storage::Cuda),
            }
        };
        let norm = clipped.map(|clipped| Storage::Cuda(clipped.part(0, 1)));
        Ok((new.into_iter().map(done).collect(), norm))
    }

    fn add_scaled(
        &self,
        residual: Option<&Storage>,
        x: &Storage,
        factors: &Storage,
    ) -> Result<Storage> {
        let kind = residual.map_or(on_gpu(x).kind, |residual| on_gpu(residual).kind);
        let x = self.aligned(&self.cast(on_gpu(x), kind)?)?;
        let residual = residual.map(|residual| self.aligned(on_gpu(residual))).transpose()?;
        let out = self.take(x.len(), kind)?;
        let width = x.len() / factors.len().max(1);
        let pack = 16 / kind.bytes();
        let (packing, each) = Packing::when(width.is_multiple_of(pack), pack);
        let added = residual.as_ref().map_or(Read::NONE, Buffer::read);
        let (factors, n) = (on_gpu(factors).read(), x.len());
        let params = (added, x.read(), factors, out.write(), width as i32, n as i64);
        self.each(self.kernels.training.add_scaled.of((packing, kind)), n / each, n, params)?;
        Ok(Storage::Cuda(out))
    }
}
