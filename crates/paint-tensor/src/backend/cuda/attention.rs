//! Launches of the attention kernels, which are compiled for a head dimension when it is first met.

use std::sync::{Arc, PoisonError};

use super::buffer::{Buffer, Kind};
use super::compile::Source;
use super::driver::{Arg, Grid, Kernels};
use super::open::load;
use super::{Cuda, on_gpu};
use crate::backend::{Attention, AttentionGrad, HeadRows, Precision, Storage};
use crate::{Error, Result};

const TEXT: &str =
    concat!(include_str!("kernels/fragments.cuh"), include_str!("kernels/attention.cu"));
const NAMES: [&str; 4] = [
    "attention_forward",
    "attention_delta",
    "attention_backward_queries",
    "attention_backward_keys",
];
/// Rows of a tile that a block walks over, as in the kernels.
const TILE: usize = 64;

/// One of the kernels over rows.
struct Kernel {
    name: &'static str,
    /// Tiles of its own rows.
    own: usize,
    /// Whether it keeps two numbers of every query.
    statistics: bool,
}

const FORWARD: Kernel = Kernel { name: NAMES[0], own: 1, statistics: false };
const QUERIES: Kernel = Kernel { name: NAMES[2], own: 2, statistics: false };
const KEYS: Kernel = Kernel { name: NAMES[3], own: 2, statistics: true };
/// The most warps of a block: as many as leave registers for other blocks beside it.
const MOST_WARPS: usize = 4;
/// The most shared memory of a block on any GPU we know; longer sequences are refused by the driver.
const MOST_SHARED: u32 = 227 << 10;

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

impl Inputs {
    /// What every kernel begins with: the sizes, and the rows of queries, keys and values.
    fn args(&self, attention: &Attention) -> [Arg; 4] {
        let Attention { q, k, v, .. } = attention;
        let [q, k, v] = [(&self.q, q), (&self.k, k), (&self.v, v)]
            .map(|(buffer, at)| rows(buffer, at.start, at.row));
        [shape(attention), q, k, v]
    }
}

/// Rows that a warp owns: two bands of 16 in bf16, if their accumulators fit into registers.
fn warp_rows(head: usize, kind: Kind) -> usize {
    if kind == Kind::Bf16 && head <= 64 { 32 } else { 16 }
}

/// How a kernel is spread over `len` rows.
fn grid(attention: &Attention, kind: Kind, len: usize, kernel: &Kernel) -> Grid {
    let rows = warp_rows(attention.head_dim, kind);
    let warps = len.div_ceil(rows).max(1);
    let blocks = warps.div_ceil(MOST_WARPS);
    let warps = warps.div_ceil(blocks);
    let statistics = if kernel.statistics { 8 * attention.q_len.next_multiple_of(TILE) } else { 0 };
    Grid {
        blocks: [blocks, attention.heads, attention.batch],
        threads: [32 * warps as u32, 1],
        shared: (tiles(attention.head_dim, kind, rows * warps, kernel.own) + statistics) as u32,
    }
}

/// Bytes of the tiles of a block: the pairs it walks over, two in bf16 and one in f32, and `own` tiles of its rows.
fn tiles(head: usize, kind: Kind, rows: usize, own: usize) -> usize {
    let width = head.next_multiple_of(16);
    let (pairs, row) = match kind {
        Kind::Bf16 => (2, (width + 8) * 2),
        Kind::F32 => (1, (width + 4) * 4),
    };
    (pairs * 2 * TILE + own * rows) * row
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
        let names = NAMES.map(str::to_owned);
        let kernels = Arc::new(load(&self.gpu, &source, &names, MOST_SHARED, cache)?);
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
        let written = [&out, &lse].map(|x| Arg::Address(x.address()));
        let args = [&inputs.args(attention)[..], &written].concat();
        let grid = grid(attention, inputs.kind, attention.q_len, &FORWARD);
        self.gpu.launch(&inputs.kernels, FORWARD.name, grid, &args)?;
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
        self.gpu.launch(&inputs.kernels, NAMES[1], delta_grid, &args)?;
        let statistics = [on_gpu(saved.lse), &delta].map(|x| Arg::Address(x.address()));
        let grad_rows = [rows(&grad, 0, attention.width())];
        let read = [&inputs.args(attention)[..], &grad_rows, &statistics].concat();
        let queries = [&read[..], &[Arg::Address(dq.address()), Arg::I64(dq_row as i64)]].concat();
        let over_queries = grid(attention, inputs.kind, attention.q_len, &QUERIES);
        self.gpu.launch(&inputs.kernels, QUERIES.name, over_queries, &queries)?;
        let to = [dk, dv].map(|start| Arg::Address(dkv.address_of(start)));
        let keys = [&read[..], &to, &[Arg::I64(dkv_row as i64)]].concat();
        let over_keys = grid(attention, inputs.kind, attention.kv_len, &KEYS);
        self.gpu.launch(&inputs.kernels, KEYS.name, over_keys, &keys)
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
