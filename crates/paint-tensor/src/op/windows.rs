//! Attention inside windows as one operation.

use std::sync::Arc;

use super::attention::check_heads;
use crate::backend::{AttentionGrad, BiasGradient, WindowAttention};
use crate::tape::{Link, Rule, Sink};
use crate::{Error, Result, Tensor};

/// Which rows of an image attend to each other: `N` rows in windows of `n`.
#[derive(Debug, Clone)]
pub struct Windows {
    /// The rows, window by window.
    places: Arc<[usize]>,
    /// The place of each row among them.
    back: Arc<[usize]>,
    len: usize,
    /// Added to the scores of every head, `[windows, n, n]`.
    mask: Option<Tensor>,
}

impl Windows {
    /// Windows of `len` rows each, one after the other in `places`, which names every row of an image once. `mask`
    /// `[windows, n, n]` is added to the scores and gets no gradient.
    pub fn new(places: Vec<usize>, len: usize, mask: Option<Tensor>) -> Result<Self> {
        let rows = places.len();
        if len == 0 || rows == 0 || !rows.is_multiple_of(len) {
            let expected = format!("[N] with N a multiple of {len} rows");
            return Err(Error::Shape { what: "windows", expected, got: vec![rows] });
        }
        let mut back = vec![usize::MAX; rows];
        for (at, &place) in places.iter().enumerate() {
            match back.get_mut(place) {
                Some(free) if *free == usize::MAX => *free = at,
                _ => {
                    let expected = format!("each of {rows} rows in one window");
                    return Err(Error::Shape { what: "windows", expected, got: vec![place] });
                }
            }
        }
        if let Some(mask) = &mask {
            let expected = [rows / len, len, len];
            if mask.shape() != expected {
                return Err(mask.shape_error("mask of windows", format!("{expected:?}")));
            }
            mask.refuse_gradient("window_attention of its mask")?;
        }
        Ok(Self { places: places.into(), back: back.into(), len, mask })
    }
}

impl Tensor {
    /// Self-attention inside windows, from packed rows `[q | k | v]`: `[B, N, 3D]` → `[B, N, D]`, rows in the order
    /// they came. `softmax(Q Kᵀ (D/h)^-1/2 + bias + mask) V` for each head and window, with `bias [h, n, n]`.
    pub fn window_attention(&self, heads: usize, bias: &Self, windows: &Windows) -> Result<Self> {
        let problem = Packed::check(self, heads, bias, windows)?;
        let device = self.device();
        let Some(kernels) = device.backend().windows() else {
            return self.window_attention_in_steps(heads, bias, windows);
        };
        let (out, lse) = kernels.window_attention(&problem.view(self, bias))?;
        let shape = vec![problem.batch, windows.places.len(), problem.d];
        let out = Self::frozen(shape.clone(), out, device.clone());
        let (storage, links) = (out.storage().clone(), [self.link(), bias.link()]);
        Ok(self.derived(shape, storage, &links, || WindowRule {
            links: links.map(Clone::clone),
            lse: Self::frozen(
                vec![problem.batch, windows.places.len() * heads],
                lse,
                device.clone(),
            ),
            qkv: self.detach(),
            bias: bias.detach(),
            out,
            problem,
        }))
    }

    /// [`Tensor::window_attention`] made of other operations, where the scores are stored: for devices without a kernel
    /// of their own, and to compare with.
    pub fn window_attention_in_steps(
        &self,
        heads: usize,
        bias: &Self,
        windows: &Windows,
    ) -> Result<Self> {
        let Packed { batch, d, .. } = Packed::check(self, heads, bias, windows)?;
        let (rows, n) = (windows.places.len(), windows.len);
        let (count, width) = (rows / n, d / heads);
        let packed = self.reordered(&windows.places, &windows.back)?.compact()?;
        let parts = packed
            .reshape([batch * count, n, 3, heads, width])?
            .permute(&[2, 0, 3, 1, 4])? // [3, B windows, h, n, D/h]
            .reshape([3, batch * count * heads, n, width])?;
        let part = |i| parts.slice(0, i, 1)?.reshape([batch * count * heads, n, width]);
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scores = q.matmul(&k.transpose(1, 2)?)?.scale((width as f32).sqrt().recip())?;
        let mut scores = scores.reshape([batch, count, heads, n, n])?.add(bias)?;
        if let Some(mask) = &windows.mask {
            scores = scores.add(&mask.reshape([count, 1, n, n])?)?;
        }
        let p = scores.softmax()?.reshape([batch * count * heads, n, n])?;
        let attended = p.matmul(&v)?.reshape([batch * count, heads, n, width])?.transpose(1, 2)?;
        attended.reshape([batch, rows, d])?.reordered(&windows.back, &windows.places)?.compact()
    }

    /// The rows of every image in another order; `back` is the inverse. `[B, N, D]`.
    fn reordered(&self, places: &Arc<[usize]>, back: &Arc<[usize]>) -> Result<Self> {
        let [batch, rows, width] = self.dims3("rows")?;
        let indices: Vec<usize> = (0..batch)
            .flat_map(|image| places.iter().map(move |place| image * rows + place))
            .collect();
        let out = self.device().backend().gather(self.storage(), &indices, width)?;
        Ok(self.derived(self.shape().to_vec(), out, &[self.link()], || ReorderRule {
            input: self.link().clone(),
            places: Arc::clone(places),
            back: Arc::clone(back),
        }))
    }
}

/// A checked problem.
struct Packed {
    batch: usize,
    d: usize,
    heads: usize,
    windows: Windows,
}

impl Packed {
    fn check(qkv: &Tensor, heads: usize, bias: &Tensor, windows: &Windows) -> Result<Self> {
        let [batch, rows, width] = qkv.dims3("packed qkv")?;
        let d = check_heads(qkv, width, 3, heads)?;
        if rows != windows.places.len() {
            let expected = format!("[B, {}, {width}]", windows.places.len());
            return Err(qkv.shape_error("packed qkv", expected));
        }
        let expected = [heads, windows.len, windows.len];
        if bias.shape() != expected {
            return Err(bias.shape_error("bias of windows", format!("{expected:?}")));
        }
        for other in [Some(bias), windows.mask.as_ref()].into_iter().flatten() {
            qkv.device().check_same(other.device(), "window_attention")?;
        }
        Ok(Self { batch, d, heads, windows: windows.clone() })
    }

    fn view<'a>(&'a self, qkv: &'a Tensor, bias: &'a Tensor) -> WindowAttention<'a> {
        WindowAttention {
            batch: self.batch,
            heads: self.heads,
            head_dim: self.d / self.heads,
            len: self.windows.len,
            places: &self.windows.places,
            qkv: qkv.storage(),
            bias: bias.storage(),
            mask: self.windows.mask.as_ref().map(Tensor::storage),
        }
    }
}

struct WindowRule {
    /// Packed rows, bias.
    links: [Link; 2],
    qkv: Tensor,
    bias: Tensor,
    out: Tensor,
    lse: Tensor,
    problem: Packed,
}

impl Rule for WindowRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let [qkv, bias] = &self.links;
        let device = grad.device();
        let kernels = device.backend().windows().expect("the forward pass had them");
        let saved = AttentionGrad {
            out: self.out.storage(),
            lse: self.lse.storage(),
            grad: grad.storage(),
        };
        let wanted = if bias.is_some() { BiasGradient::Compute } else { BiasGradient::Omit };
        let view = self.problem.view(&self.qkv, &self.bias);
        let (dqkv, dbias) = kernels.window_attention_backward(&view, &saved, wanted)?;
        let like = |tensor: &Tensor, storage| {
            Ok(Tensor::frozen(tensor.shape().to_vec(), storage, device.clone()))
        };
        sink.add_to(qkv, || like(&self.qkv, dqkv))?;
        match dbias {
            Some(dbias) => sink.add_to(bias, || like(&self.bias, dbias)),
            None => Ok(()),
        }
    }
}

struct ReorderRule {
    input: Link,
    places: Arc<[usize]>,
    back: Arc<[usize]>,
}

impl Rule for ReorderRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || grad.reordered(&self.back, &self.places))
    }
}
