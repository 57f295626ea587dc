//! Multi-head attention as one operation; its scores are never stored.

use crate::backend::{Attention, AttentionGrad, HeadRows};
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// Self-attention from packed rows `[q | k | v]`, as timm packs them: `[B, N, 3D]` → `[B, N, D]`, with the scale
    /// `(D/h)^-1/2`.
    pub fn attention(&self, heads: usize) -> Result<Self> {
        let [b, n, width] = self.dims3("packed qkv")?;
        let d = check_heads(self, width, 3, heads)?;
        let problem = Packed { batch: b, len: n, d, heads };
        let (out, lse) = self.device().backend().attention(&problem.view(self))?;
        let out = Self::frozen(vec![b, n, d], out, self.device().clone());
        let storage = out.storage().clone();
        Ok(self.derived(vec![b, n, d], storage, &[self.link()], || AttentionRule {
            input: self.link().clone(),
            qkv: self.detach(),
            out,
            lse: Self::frozen(vec![b, heads, n], lse, self.device().clone()),
            problem,
        }))
    }

    /// Attention of `self [B, M, D]` to packed `kv [B, N, 2D]` → `[B, M, D]`.
    pub fn cross_attention(&self, kv: &Self, heads: usize) -> Result<Self> {
        let [b, m, d] = self.dims3("query")?;
        check_heads(self, d, 1, heads)?;
        let [kv_b, n, width] = kv.dims3("packed kv")?;
        if kv_b != b || width != 2 * d {
            return Err(kv.shape_error("packed kv", format!("[{b}, N, {}]", 2 * d)));
        }
        self.device().check_same(kv.device(), "cross_attention")?;
        let problem = Crossed { batch: b, q_len: m, kv_len: n, d, heads };
        let (out, lse) = self.device().backend().attention(&problem.view(self, kv))?;
        let out = Self::frozen(vec![b, m, d], out, self.device().clone());
        let storage = out.storage().clone();
        Ok(self.derived(vec![b, m, d], storage, &[self.link(), kv.link()], || CrossAttentionRule {
            links: [self.link().clone(), kv.link().clone()],
            q: self.detach(),
            kv: kv.detach(),
            out,
            lse: Self::frozen(vec![b, heads, m], lse, self.device().clone()),
            problem,
        }))
    }

    /// [`Tensor::attention`] in separate steps, with the probabilities `[B, h, N, N]` as a second result that passes
    /// gradients too. For activation maps: it is slower, and stores the scores.
    pub fn attention_with_map(&self, heads: usize) -> Result<(Self, Self)> {
        let [b, n, width] = self.dims3("packed qkv")?;
        let d = check_heads(self, width, 3, heads)?;
        let part =
            |i: usize| self.slice(2, i * d, d)?.reshape([b, n, heads, d / heads])?.transpose(1, 2); // [B, h, N, D/h]
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scale = ((d / heads) as f32).sqrt().recip();
        let map = q.matmul(&k.transpose(2, 3)?)?.scale(scale)?.softmax()?; // [B, h, N, N]
        let out = map.matmul(&v)?.transpose(1, 2)?.reshape([b, n, d])?;
        Ok((out, map))
    }
}

pub(super) fn check_heads(
    tensor: &Tensor,
    width: usize,
    parts: usize,
    heads: usize,
) -> Result<usize> {
    let d = width / parts;
    if heads == 0 || d == 0 || !width.is_multiple_of(parts) || !d.is_multiple_of(heads) {
        let expected = format!("[B, N, {parts} D] with D a multiple of {heads} heads");
        return Err(tensor.shape_error("attention", expected));
    }
    Ok(d)
}

#[derive(Clone, Copy)]
struct Packed {
    batch: usize,
    len: usize,
    d: usize,
    heads: usize,
}

impl Packed {
    fn view<'a>(&self, qkv: &'a Tensor) -> Attention<'a> {
        let rows =
            |part| HeadRows { storage: qkv.storage(), start: part * self.d, row: 3 * self.d };
        Attention {
            batch: self.batch,
            heads: self.heads,
            head_dim: self.d / self.heads,
            q_len: self.len,
            kv_len: self.len,
            q: rows(0),
            k: rows(1),
            v: rows(2),
        }
    }
}

#[derive(Clone, Copy)]
struct Crossed {
    batch: usize,
    q_len: usize,
    kv_len: usize,
    d: usize,
    heads: usize,
}

impl Crossed {
    fn view<'a>(&self, q: &'a Tensor, kv: &'a Tensor) -> Attention<'a> {
        let rows = |part| HeadRows { storage: kv.storage(), start: part * self.d, row: 2 * self.d };
        Attention {
            batch: self.batch,
            heads: self.heads,
            head_dim: self.d / self.heads,
            q_len: self.q_len,
            kv_len: self.kv_len,
            q: HeadRows { storage: q.storage(), start: 0, row: self.d },
            k: rows(0),
            v: rows(1),
        }
    }
}

struct AttentionRule {
    input: Link,
    qkv: Tensor,
    out: Tensor,
    lse: Tensor,
    problem: Packed,
}

impl Rule for AttentionRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            let Packed { batch, len, d, .. } = self.problem;
            let saved = AttentionGrad {
                out: self.out.storage(),
                lse: self.lse.storage(),
                grad: grad.storage(),
            };
            let backend = grad.device().backend();
            let dqkv = backend.attention_backward_packed(&self.problem.view(&self.qkv), &saved)?;
            Ok(Tensor::frozen(vec![batch, len, 3 * d], dqkv, grad.device().clone()))
        })
    }
}

struct CrossAttentionRule {
    links: [Link; 2],
    q: Tensor,
    kv: Tensor,
    out: Tensor,
    lse: Tensor,
    problem: Crossed,
}

impl Rule for CrossAttentionRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let saved = AttentionGrad {
            out: self.out.storage(),
            lse: self.lse.storage(),
            grad: grad.storage(),
        };
        let view = self.problem.view(&self.q, &self.kv);
        let (dq, dkv) = grad.device().backend().attention_backward(&view, &saved)?;
        let like = |tensor: &Tensor, storage| {
            Ok(Tensor::frozen(tensor.shape().to_vec(), storage, tensor.device().clone()))
        };
        sink.add_to(&self.links[0], || like(&self.q, dq))?;
        sink.add_to(&self.links[1], || like(&self.kv, dkv))
    }
}
