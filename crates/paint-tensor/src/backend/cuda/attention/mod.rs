//! Attention, by kernels that are compiled for a shape when it first occurs.

mod tiled;
mod whole;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

use self::tiled::Tiled;
use self::whole::Whole;
use super::buffer::{Buffer, Kind};
use super::compile::{Define, Source};
use super::kernel::Module;
use super::open::load;
use super::param::{Read, Write, structures};
use super::{Cuda, on_gpu};
use crate::backend::{Attention, AttentionGrad, HeadRows, Precision, Storage};
use crate::{Error, Result};

/// The most shared memory of a block on any GPU that we know of; the driver refuses longer sequences.
const MOST_SHARED: u32 = 227 << 10;

/// The widest head whose accumulators fit into registers.
const WIDEST: usize = 128;

structures! {
    /// Sizes of a problem, and the factor of its scores.
    struct Shape {
        heads: i32,
        q_len: i32,
        kv_len: i32,
        scale: f32,
    }

    /// The first row of queries, keys, values or a gradient, and how many elements rows are apart.
    struct Rows {
        data: Read,
        row: i64,
    }
}

impl Rows {
    fn new(buffer: &Buffer, start: usize, row: usize) -> Self {
        Self { data: Read(buffer.address_of(start)), row: row as i64 }
    }
}

/// The arithmetic of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Bf16,
    /// f32 storage, tf32 products.
    Tf32,
    /// f32 storage, three tf32 products for each f32 one.
    F32,
}

impl Mode {
    fn of(kind: Kind, precision: Precision) -> Self {
        match (kind, precision) {
            (Kind::Bf16, _) => Self::Bf16,
            (Kind::F32, Precision::F32) => Self::F32,
            (Kind::F32, _) => Self::Tf32,
        }
    }

    /// The number of this mode, and of each, under the names that the kernels use.
    fn defines(self) -> [Define; 4] {
        let number = |name, mode| (name, mode as usize);
        [
            number("MODE", self),
            number("MODE_BF16", Self::Bf16),
            number("MODE_TF32", Self::Tf32),
            number("MODE_F32", Self::F32),
        ]
    }
}

/// The kernels compiled so far: by channels per head, or by tokens, and by arithmetic.
#[derive(Default)]
pub(super) struct Compiled {
    tiled: HashMap<(usize, Mode), Arc<Tiled>>,
    whole: HashMap<(usize, Mode), Arc<Whole>>,
}

/// The kernels that fit a problem.
enum Kernels {
    /// Sequences of any length, tile after tile.
    Tiled(Arc<Tiled>),
    /// All tokens in shared memory at once; their number, rounded up.
    Whole(Arc<Whole>, usize),
}

/// What the kernels of one problem read.
struct Inputs {
    kernels: Kernels,
    mode: Mode,
    kind: Kind,
    q: Buffer,
    k: Buffer,
    v: Buffer,
}

/// Where gradients go: the first element of each, and how far rows are apart.
#[derive(Clone, Copy)]
struct Targets {
    dq: (Write, i64),
    dk: Write,
    dv: Write,
    dkv_row: i64,
}

impl Targets {
    fn new(
        (dq, dq_row): (&Buffer, usize),
        (dkv, starts, row): (&Buffer, [usize; 2], usize),
    ) -> Self {
        let [dk, dv] = starts.map(|start| Write(dkv.address_of(start)));
        Self { dq: (dq.write(), dq_row as i64), dk, dv, dkv_row: row as i64 }
    }
}

fn shape(attention: &Attention) -> Shape {
    let [heads, q_len, kv_len] =
        [attention.heads, attention.q_len, attention.kv_len].map(|size| size as i32);
    Shape { heads, q_len, kv_len, scale: attention.scale() }
}

impl Inputs {
    /// The rows of queries, keys and values.
    fn rows(&self, attention: &Attention) -> [Rows; 3] {
        let Attention { q, k, v, .. } = attention;
        [(&self.q, q), (&self.k, k), (&self.v, v)]
            .map(|(buffer, at)| Rows::new(buffer, at.start, at.row))
    }
}

impl Cuda {
    /// What `known` holds for `key`, compiled if it is new.
    pub(super) fn compiled<K: Eq + Hash, M: Module>(
        &self,
        known: &mut HashMap<K, Arc<M>>,
        key: K,
        source: impl FnOnce() -> Source,
    ) -> Result<Arc<M>> {
        if let Some(kernels) = known.get(&key) {
            return Ok(Arc::clone(kernels));
        }
        let kernels = Arc::new(load(&self.gpu, &source(), MOST_SHARED, self.cache.as_deref())?);
        known.insert(key, Arc::clone(&kernels));
        Ok(kernels)
    }

    fn attention_kernels(&self, attention: &Attention, mode: Mode) -> Result<Kernels> {
        let mut compiled = self.attention.lock().unwrap_or_else(PoisonError::into_inner);
        let head = attention.head_dim;
        if let Some(tokens) = whole::tokens(attention, mode, self.gpu.properties.capability) {
            let source = || whole::source(tokens, mode);
            return Ok(Kernels::Whole(
                self.compiled(&mut compiled.whole, (tokens, mode), source)?,
                tokens,
            ));
        }
        let source = || tiled::source(head, mode);
        Ok(Kernels::Tiled(self.compiled(&mut compiled.tiled, (head, mode), source)?))
    }

    fn inputs(&self, attention: &Attention) -> Result<Inputs> {
        let head = attention.head_dim;
        if head > WIDEST {
            return Err(Error::Gpu {
                what: format!("attention with {head} channels per head"),
                why: format!("the kernels hold at most {WIDEST}"),
            });
        }
        let kind = on_gpu(attention.q.storage).kind;
        let mode = Mode::of(kind, self.precision);
        let cast = |rows: HeadRows| self.aligned(&self.cast(on_gpu(rows.storage), kind)?);
        Ok(Inputs {
            kernels: self.attention_kernels(attention, mode)?,
            mode,
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
        let [q, k, v] = inputs.rows(attention);
        let params = (shape(attention), q, k, v, out.write(), lse.write());
        match &inputs.kernels {
            Kernels::Tiled(kernels) => {
                let shared = self.gpu.properties.shared_memory as usize;
                let grid = tiled::forward_grid(attention, inputs.mode, shared);
                self.gpu.launch(&kernels.attention_forward, grid, params)?;
            }
            Kernels::Whole(kernels, tokens) => {
                let multiprocessors = self.gpu.properties.multiprocessors as usize;
                let grid = whole::forward_grid(attention, *tokens, multiprocessors);
                self.gpu.launch(&kernels.attention_whole_forward, grid, params)?;
            }
        }
        Ok((Storage::Cuda(out), Storage::Cuda(lse)))
    }

    fn attention_backward_into(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
        inputs: &Inputs,
        to: Targets,
    ) -> Result<()> {
        let grad = self.aligned(&self.cast(on_gpu(saved.grad), inputs.kind)?)?;
        match &inputs.kernels {
            Kernels::Tiled(kernels) => {
                self.tiled_backward(attention, saved, (inputs, kernels), &grad, to)
            }
            Kernels::Whole(kernels, tokens) => {
                let ([q, k, v], grad) =
                    (inputs.rows(attention), Rows::new(&grad, 0, attention.width()));
                let [out, lse] = [saved.out, saved.lse].map(|x| on_gpu(x).read());
                let Targets { dq: (dq, dq_row), dk, dv, dkv_row } = to;
                let params =
                    (shape(attention), q, k, v, grad, out, lse, dq, dq_row, dk, dv, dkv_row);
                let grid = whole::backward_grid(attention, *tokens);
                self.gpu.launch(&kernels.attention_whole_backward, grid, params)
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
        self.attention_backward_into(attention, saved, &inputs, to)?;
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
        self.attention_backward_into(attention, saved, &inputs, to)?;
        Ok(Storage::Cuda(out))
    }
}

/// The files of this folder with what they declare, for every arithmetic.
#[cfg(test)]
pub(super) fn signatures() -> Vec<(Source, super::kernel::Signatures)> {
    [Mode::Bf16, Mode::Tf32, Mode::F32]
        .into_iter()
        .flat_map(|mode| {
            [
                (tiled::source(64, mode), Tiled::signatures()),
                (whole::source(208, mode), Whole::signatures()),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `f` with the sizes of a problem; what it reads is one number on the host.
    pub(super) fn self_attention(len: usize, head_dim: usize, f: impl FnOnce(&Attention)) {
        let storage =
            crate::backend::cpu::backend(Precision::F32).fill(1, 0.0).expect("one number");
        let rows = HeadRows { storage: &storage, start: 0, row: head_dim };
        f(&Attention {
            batch: 2,
            heads: 1,
            head_dim,
            q_len: len,
            kv_len: len,
            q: rows,
            k: rows,
            v: rows,
        });
    }
}
