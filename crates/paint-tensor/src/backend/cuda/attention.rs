//! Launches of the attention kernels, which are compiled for a head dimension when it is first met.

use std::sync::{Arc, PoisonError};

use super::buffer::{Buffer, Kind};
use super::compile::Source;
use super::driver::{Arg, Grid, Kernels};
use super::{Cuda, load, on_gpu};
use crate::backend::{Attention, AttentionGrad, HeadRows, Precision, Storage};
use crate::{Error, Result};

const TEXT: &str = include_str!("kernels/attention.cu");
const NAMES: [&str; 4] = [
    "attention_forward",
    "attention_delta",
    "attention_backward_queries",
    "attention_backward_keys",
];
/// Rows of a tile and threads of a block, as in the kernels.
const TILE: usize = 64;
const THREADS: u32 = 128;
/// The widest head whose accumulators fit into registers.
const WIDEST: usize = 128;

/// What the kernels of one problem read.
struct Inputs {
    kernels: Arc<Kernels>,
    kind: Kind,
    q: Buffer,
    k: Buffer,
    v: Buffer,
}

fn shape(attention: &Attention) -> Arg {
    let sizes = [attention.heads, attention.q_len, attention.kv_len];
    Arg::words(sizes.into_iter().chain([attention.scale().to_bits() as usize]))
}

fn rows(buffer: &Buffer, start: usize, row: usize) -> Arg {
    Arg::Rows([buffer.address_of(start), row as u64])
}

/// Shared memory of a block with `own` tiles of its own and the pairs it walks over: two in bf16, one in f32.
fn shared(head: usize, kind: Kind, own: usize) -> u32 {
    let width = head.next_multiple_of(16);
    let bytes = match kind {
        Kind::Bf16 => (own + 4) * TILE * (width + 8) * 2,
        Kind::F32 => (own + 2) * TILE * (width + 4) * 4,
    };
    bytes as u32
}

/// Blocks over `len` rows, each with `own` tiles of its own.
fn grid(attention: &Attention, kind: Kind, len: usize, own: usize) -> Grid {
    Grid {
        blocks: [len.div_ceil(TILE), attention.heads, attention.batch],
        threads: [THREADS, 1],
        shared: shared(attention.head_dim, kind, own),
    }
}

impl Cuda {
    fn attention_kernels(&self, head: usize, kind: Kind) -> Result<Arc<Kernels>> {
        if head > WIDEST {
            return Err(Error::Gpu {
                what: format!("attention with {head} channels a head"),
                why: format!("the kernels hold at most {WIDEST}"),
            });
        }
        let mut compiled = self.attention.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = compiled.get(&(head, kind)) {
            return Ok(Arc::clone(kernels));
        }
        let mode = match (kind, self.precision) {
            (Kind::Bf16, _) => 0,
            (Kind::F32, Precision::F32) => 2,
            (Kind::F32, _) => 1,
        };
        let width = head.next_multiple_of(16);
        let defines = vec![("MODE", mode), ("HEAD", head), ("WIDTH", width)];
        let source = Source { name: "attention", text: TEXT, defines };
        let cache = self.cache.as_deref();
        let image = source.image(self.gpu.properties.capability, cache)?;
        let most = shared(head, kind, 2);
        let kernels =
            Arc::new(load(&self.gpu, &source, &image, &NAMES.map(str::to_owned), most, cache)?);
        compiled.insert((head, kind), Arc::clone(&kernels));
        Ok(kernels)
    }

    fn inputs(&self, attention: &Attention) -> Result<Inputs> {
        let kind = on_gpu(attention.q.storage).kind;
        let cast = |rows: HeadRows| self.aligned(&self.cast(on_gpu(rows.storage), kind)?);
        Ok(Inputs {
            kernels: self.attention_kernels(attention.head_dim, kind)?,
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
        let args = [
            shape(attention),
            rows(&inputs.q, attention.q.start, attention.q.row),
            rows(&inputs.k, attention.k.start, attention.k.row),
            rows(&inputs.v, attention.v.start, attention.v.row),
            Arg::Address(out.address()),
            Arg::Address(lse.address()),
        ];
        let grid = grid(attention, inputs.kind, attention.q_len, 1);
        self.gpu.launch(&inputs.kernels, "attention_forward", grid, &args)?;
        Ok((Storage::Cuda(out), Storage::Cuda(lse)))
    }

    /// Writes the gradients of queries to `dq` and of keys and values to `dkv`: a buffer, the first element of each
    /// gradient in it, and its elements a row.
    fn attention_backward_into(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
        inputs: &Inputs,
        (dq, dq_row): (&Buffer, usize),
        (dkv, [dk, dv], dkv_row): (&Buffer, [usize; 2], usize),
    ) -> Result<()> {
        let grad = self.aligned(&self.cast(on_gpu(saved.grad), inputs.kind)?)?;
        let count = attention.batch * attention.heads * attention.q_len;
        let delta = self.take_f32(count)?;
        let delta_grid = Grid::new([count.div_ceil(32), 1, 1], [256, 1]);
        let args = [
            shape(attention),
            Arg::Address(on_gpu(saved.out).address()),
            Arg::Address(grad.address()),
            Arg::Address(delta.address()),
            Arg::I64(count as i64),
        ];
        self.gpu.launch(&inputs.kernels, "attention_delta", delta_grid, &args)?;
        let read = [
            shape(attention),
            rows(&inputs.q, attention.q.start, attention.q.row),
            rows(&inputs.k, attention.k.start, attention.k.row),
            rows(&inputs.v, attention.v.start, attention.v.row),
            rows(&grad, 0, attention.width()),
            Arg::Address(on_gpu(saved.lse).address()),
            Arg::Address(delta.address()),
        ];
        let queries = [&read[..], &[Arg::Address(dq.address()), Arg::I64(dq_row as i64)]].concat();
        let over_queries = grid(attention, inputs.kind, attention.q_len, 2);
        self.gpu.launch(&inputs.kernels, "attention_backward_queries", over_queries, &queries)?;
        let to = [dk, dv].map(|start| Arg::Address(dkv.address_of(start)));
        let keys = [&read[..], &to, &[Arg::I64(dkv_row as i64)]].concat();
        let over_keys = grid(attention, inputs.kind, attention.kv_len, 2);
        self.gpu.launch(&inputs.kernels, "attention_backward_keys", over_keys, &keys)
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
        self.attention_backward_into(attention, saved, &inputs, (&dq, d), (&dkv, [0, d], 2 * d))?;
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
        let keys = (&out, [d, 2 * d], 3 * d);
        self.attention_backward_into(attention, saved, &inputs, (&out, 3 * d), keys)?;
        Ok(Storage::Cuda(out))
    }
}
