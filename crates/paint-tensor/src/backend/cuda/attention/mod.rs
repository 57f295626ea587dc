//! Attention, by kernels that are compiled for a shape when it is first met.

mod tiled;
mod whole;

use std::sync::{Arc, PoisonError};

use self::tiled::Mode;
use super::buffer::{Buffer, Kind};
use super::driver::{Arg, Kernels};
use super::open::load;
use super::{Cuda, on_gpu};
use crate::backend::{Attention, AttentionGrad, HeadRows, Storage};
use crate::{Error, Result};

/// The most shared memory of a block on any GPU we know; longer sequences are refused by the driver.
const MOST_SHARED: u32 = 227 << 10;

/// The widest head whose accumulators fit into registers.
const WIDEST: usize = 128;

/// Which kernels do a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// Any length, tile after tile, with this many channels a head.
    Tiled { head: usize, mode: Mode },
    /// As many tokens as round up to this by 16, all in shared memory at once.
    Whole { tokens: usize, mode: Mode },
}

/// What the kernels of one problem read.
struct Inputs {
    kernels: Arc<Kernels>,
    variant: Variant,
    kind: Kind,
    q: Buffer,
    k: Buffer,
    v: Buffer,
}

/// Where gradients go: the first element of each, and how far rows are apart.
struct Targets {
    dq: [Arg; 2],
    dkv: [Arg; 3],
}

impl Targets {
    fn new(
        (dq, dq_row): (&Buffer, usize),
        (dkv, starts, row): (&Buffer, [usize; 2], usize),
    ) -> Self {
        let [dk, dv] = starts.map(|start| Arg::Address(dkv.address_of(start)));
        Self {
            dq: [Arg::Address(dq.address()), Arg::I64(dq_row as i64)],
            dkv: [dk, dv, Arg::I64(row as i64)],
        }
    }
}

fn shape(attention: &Attention) -> Arg {
    let sizes = [attention.heads, attention.q_len, attention.kv_len];
    Arg::words(sizes.into_iter().chain([attention.scale().to_bits() as usize]))
}

fn rows(buffer: &Buffer, start: usize, row: usize) -> Arg {
    Arg::Rows([buffer.address_of(start), row as u64])
}

impl Inputs {
    /// What every kernel begins with: the sizes, and the rows of queries, keys and values.
    fn args(&self, attention: &Attention) -> [Arg; 4] {
        let Attention { q, k, v, .. } = attention;
        let [q, k, v] = [(&self.q, q), (&self.k, k), (&self.v, v)]
            .map(|(buffer, at)| rows(buffer, at.start, at.row));
        [shape(attention), q, k, v]
    }
}

impl Cuda {
    fn attention_kernels(&self, variant: Variant) -> Result<Arc<Kernels>> {
        let mut compiled = self.attention.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = compiled.get(&variant) {
            return Ok(Arc::clone(kernels));
        }
        let (source, names) = match variant {
            Variant::Tiled { head, mode } => tiled::source(head, mode),
            Variant::Whole { tokens, mode } => whole::source(tokens, mode),
        };
        let cache = self.cache.as_deref();
        let kernels = Arc::new(load(&self.gpu, &source, &names, MOST_SHARED, cache)?);
        compiled.insert(variant, Arc::clone(&kernels));
        Ok(kernels)
    }

    fn inputs(&self, attention: &Attention) -> Result<Inputs> {
        let head = attention.head_dim;
        if head > WIDEST {
            return Err(Error::Gpu {
                what: format!("attention with {head} channels a head"),
                why: format!("the kernels hold at most {WIDEST}"),
            });
        }
        let kind = on_gpu(attention.q.storage).kind;
        let mode = Mode::of(kind, self.precision);
        let variant = whole::variant(attention, mode, self.gpu.properties.capability)
            .unwrap_or(Variant::Tiled { head, mode });
        let cast = |rows: HeadRows| self.aligned(&self.cast(on_gpu(rows.storage), kind)?);
        Ok(Inputs {
            kernels: self.attention_kernels(variant)?,
            variant,
            kind,
            q: cast(attention.q)?,
            k: cast(attention.k)?,
            v: cast(attention.v)?,
        })
    }

    pub(super) fn attention_forward(&self, attention: &Attention) -> Result<(Storage, Storage)> {
        let inputs = self.inputs(attention)?;
        let count = attention.batch * attention.q_len;
        let out = self.take(count * attention.width(), inputs.kind)?;
        let lse = self.take_f32(count * attention.heads)?;
        let written = [&out, &lse].map(|x| Arg::Address(x.address()));
        let args = [&inputs.args(attention)[..], &written].concat();
        let (name, grid) = match inputs.variant {
            Variant::Tiled { mode, .. } => tiled::forward(attention, mode, &self.gpu),
            Variant::Whole { tokens, .. } => whole::forward(attention, tokens),
        };
        self.gpu.launch(&inputs.kernels, name, grid, &args)?;
        Ok((Storage::Cuda(out), Storage::Cuda(lse)))
    }

    fn attention_backward_into(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
        inputs: &Inputs,
        to: &Targets,
    ) -> Result<()> {
        let grad = self.aligned(&self.cast(on_gpu(saved.grad), inputs.kind)?)?;
        match inputs.variant {
            Variant::Tiled { mode, .. } => {
                self.tiled_backward(attention, saved, (inputs, mode), &grad, to)
            }
            Variant::Whole { tokens, .. } => {
                let grad = [rows(&grad, 0, attention.width())];
                let forward = [saved.out, saved.lse].map(|x| Arg::Address(on_gpu(x).address()));
                let read = [&inputs.args(attention)[..], &grad, &forward].concat();
                let args = [&read[..], &to.dq, &to.dkv].concat();
                let (name, grid) = whole::backward(attention, tokens);
                self.gpu.launch(&inputs.kernels, name, grid, &args)
            }
        }
    }

    pub(super) fn attention_gradients(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<(Storage, Storage)> {
        let inputs = self.inputs(attention)?;
        let d = attention.width();
        let dq = self.take(attention.batch * attention.q_len * d, inputs.kind)?;
        let dkv = self.take(attention.batch * attention.kv_len * 2 * d, inputs.kind)?;
        let to = Targets::new((&dq, d), (&dkv, [0, d], 2 * d));
        self.attention_backward_into(attention, saved, &inputs, &to)?;
        Ok((Storage::Cuda(dq), Storage::Cuda(dkv)))
    }

    /// The gradient of packed rows `[q | k | v]`.
    pub(super) fn attention_gradients_packed(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<Storage> {
        let inputs = self.inputs(attention)?;
        let d = attention.width();
        let out = self.take(attention.batch * attention.q_len * 3 * d, inputs.kind)?;
        let to = Targets::new((&out, 3 * d), (&out, [d, 2 * d], 3 * d));
        self.attention_backward_into(attention, saved, &inputs, &to)?;
        Ok(Storage::Cuda(out))
    }
}
