//! Matrix products of two activations.

use crate::backend::{Epilogue, Gemm, Matrix};
use crate::shape::{checked_count, elem_count};
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// `[.., M, K] x [.., K, N]` with equal leading axes, or `[.., M, K] x [K, N]`.
    pub fn matmul(&self, rhs: &Self) -> Result<Self> {
        let ([.., m, k], [.., inner, n]) = (self.shape(), rhs.shape()) else {
            return Err(rhs.shape_error("matmul", "two operands of at least two axes"));
        };
        let (m, k, n) = (*m, *k, *n);
        let lead = &self.shape()[..self.shape().len() - 2];
        let shared = rhs.shape().len() == 2;
        if *inner != k || !(shared || rhs.shape()[..rhs.shape().len() - 2] == *lead) {
            return Err(rhs.shape_error("matmul", format!("[{k}, N] or {lead:?} + [{k}, N]")));
        }
        self.device().check_same(rhs.device(), "matmul")?;
        let shape = [lead, &[m, n]].concat();
        checked_count(&shape, "matmul")?;
        let (a, b) = (Stack::of(self, shared), Stack::of(rhs, shared));
        let out = product(self, &a, &b)?;
        Ok(self.derived(shape, out.into_storage(), &[self.link(), rhs.link()], || MatmulRule {
            links: [self.link().clone(), rhs.link().clone()],
            lhs: rhs.requires_grad().then(|| self.detach()),
            rhs: self.requires_grad().then(|| rhs.detach()),
            shapes: [self.shape().to_vec(), rhs.shape().to_vec()],
            shared,
        }))
    }

    /// `xᵀ x` of `[N, D]`, stored in full. It has no gradient rule.
    pub fn gram(&self) -> Result<Self> {
        let [_, d] = self.dims2("gram")?;
        self.refuse_gradient("gram")?;
        let x = || Stack::of(self, true);
        let gemm = Gemm { full: true, ..gemm(&x().transposed(), &x()) };
        let (out, _) = self.device().backend().gemm(&gemm)?;
        Ok(Self::frozen(vec![d, d], out, self.device().clone()))
    }
}

/// A stack of matrices `[batches, rows, cols]` read with or without transposition.
struct Stack<'a> {
    tensor: &'a Tensor,
    batches: usize,
    rows: usize,
    cols: usize,
    transposed: bool,
}

impl<'a> Stack<'a> {
    /// With `flat`, leading axes join the rows: one large product instead of many small ones.
    fn of(tensor: &'a Tensor, flat: bool) -> Self {
        let shape = tensor.shape();
        let cols = shape[shape.len() - 1];
        let (batches, rows) = if flat {
            (1, elem_count(&shape[..shape.len() - 1]))
        } else {
            (elem_count(&shape[..shape.len() - 2]), shape[shape.len() - 2])
        };
        Self { tensor, batches, rows, cols, transposed: false }
    }

    fn transposed(self) -> Self {
        Self { transposed: true, ..self }
    }

    fn size(&self) -> (usize, usize) {
        if self.transposed { (self.cols, self.rows) } else { (self.rows, self.cols) }
    }

    fn matrix(&self) -> Matrix<'a> {
        let matrix = Matrix {
            batch: self.rows * self.cols,
            ..Matrix::row_major(self.tensor.storage(), self.cols)
        };
        if self.transposed { matrix.transposed() } else { matrix }
    }
}

fn gemm<'a>(a: &Stack<'a>, b: &Stack<'a>) -> Gemm<'a> {
    let ((m, k), (_, n)) = (a.size(), b.size());
    Gemm {
        batches: a.batches,
        m,
        n,
        k,
        a: a.matrix(),
        b: b.matrix(),
        epilogue: Epilogue::None,
        full: false,
        frozen: false,
    }
}

/// `[batches, m, n]` as one flat tensor; the caller gives it its shape.
fn product(on: &Tensor, a: &Stack, b: &Stack) -> Result<Tensor> {
    let gemm = gemm(a, b);
    let (out, _) = on.device().backend().gemm(&gemm)?;
    Ok(Tensor::frozen(vec![gemm.batches * gemm.m * gemm.n], out, on.device().clone()))
}

struct MatmulRule {
    links: [Link; 2],
    lhs: Option<Tensor>,
    rhs: Option<Tensor>,
    shapes: [Vec<usize>; 2],
    shared: bool,
}

impl Rule for MatmulRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.links[0], || {
            let rhs = self.rhs.as_ref().expect("saved whenever the left operand is tracked");
            product(
                &grad,
                &Stack::of(&grad, self.shared),
                &Stack::of(rhs, self.shared).transposed(),
            )?
            .reshape(&self.shapes[0])
        })?;
        sink.add_to(&self.links[1], || {
            let lhs = self.lhs.as_ref().expect("saved whenever the right operand is tracked");
            product(
                &grad,
                &Stack::of(lhs, self.shared).transposed(),
                &Stack::of(&grad, self.shared),
            )?
            .reshape(&self.shapes[1])
        })
    }
}
