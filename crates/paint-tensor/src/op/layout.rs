//! Operations that only move elements.

use crate::shape::{checked_count, elem_count, split_at};
use crate::tape::{Link, Rule, Sink};
use crate::{Error, Result, Tensor};

impl Tensor {
    /// The same elements in another shape; no copy.
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        let shape = shape.as_ref().to_vec();
        if checked_count(&shape, "reshape")? != self.elem_count() {
            return Err(self.shape_error("reshape", format!("as many elements as {shape:?}")));
        }
        let inner = self.shape().to_vec();
        Ok(self.derived(shape, self.storage().clone(), &[self.link()], || MoveRule {
            input: self.link().clone(),
            back: Move::Reshape(inner),
        }))
    }

    /// The same values, stored as the device keeps activations in its precision: a copy in bf16, or no copy at all.
    /// Gradients pass through.
    pub fn compact(&self) -> Result<Self> {
        let out = self.device().backend().compact(self.storage())?;
        let shape = self.shape().to_vec();
        Ok(self.derived(shape.clone(), out, &[self.link()], || MoveRule {
            input: self.link().clone(),
            back: Move::Reshape(shape),
        }))
    }

    /// Axis `i` of the result is axis `axes[i]` of the input.
    pub fn permute(&self, axes: &[usize]) -> Result<Self> {
        let rank = self.shape().len();
        let mut back = vec![usize::MAX; rank];
        for (to, &from) in axes.iter().enumerate() {
            if from >= rank || back[from] != usize::MAX || axes.len() != rank {
                return Err(self.shape_error("permute", format!("each axis once in {axes:?}")));
            }
            back[from] = to;
        }
        let shape = axes.iter().map(|&axis| self.shape()[axis]).collect();
        let out = self.device().backend().permute(self.storage(), self.shape(), axes)?;
        Ok(self.derived(shape, out, &[self.link()], || MoveRule {
            input: self.link().clone(),
            back: Move::Permute(back),
        }))
    }

    /// Two axes exchanged.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Self> {
        let rank = self.shape().len();
        let mut axes: Vec<usize> = (0..rank).collect();
        for axis in [a, b] {
            if axis >= rank {
                return Err(Error::Index { what: "transpose", index: axis, size: rank });
            }
        }
        axes.swap(a, b);
        self.permute(&axes)
    }

    /// `len` entries of one axis from `start`; no copy along the first axis.
    pub fn slice(&self, axis: usize, start: usize, len: usize) -> Result<Self> {
        let split @ [outer, mid, inner] = split_at(self.shape(), axis, "slice")?;
        if start > mid || len > mid - start {
            return Err(Error::Index {
                what: "slice",
                index: start.saturating_add(len),
                size: mid,
            });
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = len;
        let out = if outer == 1 {
            self.storage().part(start * inner, len * inner)
        } else {
            self.device().backend().slice(self.storage(), split, start, len)?
        };
        Ok(self.derived(shape, out, &[self.link()], || MoveRule {
            input: self.link().clone(),
            back: Move::Pad { shape: self.shape().to_vec(), axis, start },
        }))
    }

    /// Tensors joined along one axis; the other axes must agree.
    pub fn concat(parts: &[&Self], axis: usize) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::Index { what: "concat", index: 0, size: 0 });
        };
        let [outer, ..] = split_at(first.shape(), axis, "concat")?;
        let mut shape = first.shape().to_vec();
        shape[axis] = 0;
        let mut views = Vec::with_capacity(parts.len());
        for part in parts {
            first.device().check_same(part.device(), "concat")?;
            let fits = part.shape().len() == shape.len()
                && (0..shape.len()).all(|i| i == axis || part.shape()[i] == shape[i]);
            if !fits {
                return Err(part.shape_error(
                    "concat",
                    format!("{:?} except along axis {axis}", first.shape()),
                ));
            }
            shape[axis] += part.shape()[axis];
            views.push((part.storage(), part.elem_count() / outer.max(1)));
        }
        checked_count(&shape, "concat")?;
        let out = first.device().backend().concat(outer, &views)?;
        let links: Vec<&Link> = parts.iter().map(|part| part.link()).collect();
        Ok(first.derived(shape, out, &links, || ConcatRule {
            parts: parts.iter().map(|part| (part.link().clone(), part.shape()[axis])).collect(),
            axis,
        }))
    }

    /// Entries of the first axis by index, repeats allowed.
    pub fn gather(&self, indices: &[usize]) -> Result<Self> {
        let [_, size, width] = split_at(self.shape(), 0, "gather")?;
        let mut shape = self.shape().to_vec();
        shape[0] = indices.len();
        checked_count(&shape, "gather")?;
        self.gather_rows(indices.to_vec(), [size, width], shape)
    }

    /// Element `indices[i]` of row `i`: `[B, C]` → `[B]`.
    pub fn pick(&self, indices: &[usize]) -> Result<Self> {
        let [b, c] = self.dims2("pick")?;
        if indices.len() != b {
            return Err(self.shape_error("pick", format!("[{}, C]", indices.len())));
        }
        if let Some(&index) = indices.iter().find(|&&index| index >= c) {
            return Err(Error::Index { what: "pick", index, size: c });
        }
        let flat = indices.iter().enumerate().map(|(row, index)| row * c + index).collect();
        self.gather_rows(flat, [b * c, 1], vec![b])
    }

    fn gather_rows(
        &self,
        indices: Vec<usize>,
        [size, width]: [usize; 2],
        shape: Vec<usize>,
    ) -> Result<Self> {
        if let Some(&index) = indices.iter().find(|&&index| index >= size) {
            return Err(Error::Index { what: "gather", index, size });
        }
        let out = self.device().backend().gather(self.storage(), &indices, width)?;
        Ok(self.derived(shape, out, &[self.link()], || MoveRule {
            input: self.link().clone(),
            back: Move::Scatter { shape: self.shape().to_vec(), indices, width },
        }))
    }

    /// Square patches in row-major order, each flattened as channel, row, column: `[B, 3, H, W]` → `[B, N, 3 p p]`.
    pub fn unfold_patches(&self, patch: usize) -> Result<Self> {
        let [b, c, h, w] = self.dims4("images")?;
        if patch == 0 || !h.is_multiple_of(patch) || !w.is_multiple_of(patch) {
            return Err(self.shape_error(
                "images",
                format!("sides that are multiples of the patch size {patch}"),
            ));
        }
        let (rows, cols) = (h / patch, w / patch);
        self.reshape([b, c, rows, patch, cols, patch])?
            .permute(&[0, 2, 4, 1, 3, 5])? // [B, rows, cols, C, p, p]
            .reshape([b, rows * cols, c * patch * patch])
    }
}

/// How a gradient moves back.
enum Move {
    Reshape(Vec<usize>),
    Permute(Vec<usize>),
    Pad { shape: Vec<usize>, axis: usize, start: usize },
    Scatter { shape: Vec<usize>, indices: Vec<usize>, width: usize },
}

struct MoveRule {
    input: Link,
    back: Move,
}

impl Rule for MoveRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || match &self.back {
            Move::Reshape(shape) => grad.reshape(shape),
            Move::Permute(axes) => grad.permute(axes),
            Move::Pad { shape, axis, start } => {
                let part = |size: usize| {
                    let mut shape = shape.clone();
                    shape[*axis] = size;
                    Tensor::zeros(shape, grad.device())
                };
                let after = shape[*axis] - start - grad.shape()[*axis];
                Tensor::concat(&[&part(*start)?, &grad, &part(after)?], *axis)
            }
            Move::Scatter { shape, indices, width } => {
                let backend = grad.device().backend();
                let out =
                    backend.scatter_add(grad.storage(), indices, *width, elem_count(shape))?;
                Ok(Tensor::frozen(shape.clone(), out, grad.device().clone()))
            }
        })
    }
}

struct ConcatRule {
    parts: Vec<(Link, usize)>,
    axis: usize,
}

impl Rule for ConcatRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let mut start = 0;
        for (link, len) in &self.parts {
            sink.add_to(link, || grad.slice(self.axis, start, *len))?;
            start += len;
        }
        Ok(())
    }
}
