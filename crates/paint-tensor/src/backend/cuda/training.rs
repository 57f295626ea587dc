//! Training on a GPU: draws and addresses travel in small uploads, everything else stays there.

use super::buffer::{Buffer, Kind};
use super::driver::{Arg, Grid};
use super::elements::THREADS;
use super::{Cuda, on_gpu};
use crate::Result;
use crate::backend::{
    Compose, Precision, Step, StepRule, StepSlot, SteppedSlot, Storage, Training,
};
use crate::op::images::{Draw, Edge, Rect, Tone, View};

/// Kernels whose names come out of macros.
pub(super) const KERNELS: &[&str] =
    &["add_scaled_f32", "add_scaled_bf16", "add_scaled_any_f32", "add_scaled_any_bf16"];

/// Words of a draw, as in `training.cu`.
const DRAW: usize = 32;
/// Words of a parameter's row, as in `training.cu`.
const SLOT: usize = 24;
/// Blocks of threads that share a parameter.
const BLOCKS: usize = 32;

fn view_words(view: &View) -> [f32; 11] {
    let [a, b, c, d, e, f] = view.matrix;
    let index = f32::from_bits(view.index as u32);
    let tone = match view.tone {
        Tone::Natural => 0.0,
        Tone::Grey => 1.0,
        Tone::Solarized => 2.0,
    };
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
            half: when(self.precision == Precision::Bf16, Kind::Bf16)?,
        })
    }

    /// The norm of all gradients and the factor that clips it, two elements.
    fn clip_factor(&self, table: Arg, slots: usize, clip: f32) -> Result<Buffer> {
        let (parts, out) = (self.take_f32(slots * BLOCKS)?, self.take_f32(2)?);
        let threads = [THREADS as u32, 1];
        let to = Arg::Address(parts.address());
        self.launch("gradient_squares", Grid::new([BLOCKS, slots, 1], threads), &[table, to])?;
        let args = [
            Arg::Address(parts.address()),
            Arg::I32(parts.len() as i32),
            Arg::F32(clip),
            Arg::Address(out.address()),
        ];
        self.launch("clip_factor", Grid::new([1, 1, 1], [1024, 1]), &args)?;
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
        let sizes =
            [stored, size].into_iter().flatten().chain([usize::from(edge == Edge::Reflect)]);
        let args = [
            Arg::Address(on_gpu(bytes).address()),
            Arg::Address(rows.address()),
            Arg::Address(out.address()),
            Arg::words(sizes),
        ];
        let grid = Grid::new([draws.len(), 1, 1], [THREADS as u32, 1]);
        self.launch("compose", grid, &args)?;
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
        let at = Arg::Address(table.address());
        let clipped = step.clip.map(|clip| self.clip_factor(at, slots.len(), clip)).transpose()?;
        let factor = Arg::Address(clipped.as_ref().map_or(0, |clipped| clipped.address_of(1)));
        let (name, numbers) = match step.rule {
            StepRule::Sgd { momentum, nesterov } => {
                ("sgd_all", vec![momentum, f32::from(u8::from(nesterov)), step.average_decay])
            }
            StepRule::Adam { beta1, beta2, eps, t, decoupled } => {
                let correction = |beta: f32| 1.0 - f64::from(beta).powi(t as i32);
                let rate = (1.0 / correction(beta1)) as f32;
                let root = (1.0 / correction(beta2).sqrt()) as f32;
                let beside = f32::from(u8::from(decoupled));
                ("adam_all", vec![beta1, beta2, eps, rate, root, beside, step.average_decay])
            }
        };
        let numbers = Arg::words(numbers.into_iter().map(|number| number.to_bits() as usize));
        let grid = Grid::new([BLOCKS, slots.len(), 1], [THREADS as u32, 1]);
        self.launch(name, grid, &[at, factor, numbers])?;
        let done = |new: NewSlot| {
            if let Some(half) = new.half {
                // Freshly taken, so nobody has made one before.
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
        let packed = width.is_multiple_of(pack);
        let name = format!("add_scaled_{}{}", if packed { "" } else { "any_" }, kind.name());
        let args = [
            Arg::Address(residual.as_ref().map_or(0, Buffer::address)),
            Arg::Address(x.address()),
            Arg::Address(on_gpu(factors).address()),
            Arg::Address(out.address()),
            Arg::I32(width as i32),
        ];
        let work = if packed { x.len() / pack } else { x.len() };
        self.each(&name, work, &args, x.len())?;
        Ok(Storage::Cuda(out))
    }
}
