//! Elementwise arithmetic with NumPy broadcasting.

use crate::backend::{Binary, Unary};
use crate::shape::{broadcast, broadcast_strides, elem_count, repeated_axes};
use crate::tape::{Link, Rule, Sink};
use crate::{Error, Result, Tensor};

impl Tensor {
    /// `a + b`.
    pub fn add(&self, rhs: &Self) -> Result<Self> {
        self.combine(rhs, Binary::Add, "add")
    }

    /// `a - b`.
    pub fn sub(&self, rhs: &Self) -> Result<Self> {
        self.combine(rhs, Binary::Sub, "sub")
    }

    /// `a b`, element by element.
    pub fn mul(&self, rhs: &Self) -> Result<Self> {
        self.combine(rhs, Binary::Mul, "mul")
    }

    /// `a / b`, element by element.
    pub fn div(&self, rhs: &Self) -> Result<Self> {
        self.combine(rhs, Binary::Div, "div")
    }

    /// `factor x`.
    pub fn scale(&self, factor: f32) -> Result<Self> {
        self.map(Unary::Scale(factor))
    }

    /// `x + term`.
    pub fn add_scalar(&self, term: f32) -> Result<Self> {
        self.map(Unary::AddScalar(term))
    }

    /// `-x`.
    pub fn neg(&self) -> Result<Self> {
        self.scale(-1.0)
    }

    /// `eˣ`, and `e^88.3` above 88.3, where `f32` is about to overflow: always finite.
    pub fn exp(&self) -> Result<Self> {
        self.map(Unary::Exp)
    }

    /// The natural logarithm.
    pub fn log(&self) -> Result<Self> {
        self.map(Unary::Log)
    }

    /// The square root.
    pub fn sqrt(&self) -> Result<Self> {
        self.map(Unary::Sqrt)
    }

    /// The same elements repeated to a larger shape.
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        let zeros = Self::zeros(shape.as_ref(), self.device())?;
        if broadcast(self.shape(), shape.as_ref(), "broadcast_to")? != shape.as_ref() {
            return Err(self.shape_error(
                "broadcast_to",
                format!("a shape that repeats to {:?}", shape.as_ref()),
            ));
        }
        zeros.add(self)
    }

    /// `a + w (b - a)`: a moving average. It has no gradient rule.
    pub fn lerp(&self, rhs: &Self, weight: f32) -> Result<Self> {
        self.like("lerp", rhs)?;
        let out = self.device().backend().lerp(self.storage(), rhs.storage(), weight)?;
        Ok(Self::frozen(self.shape().to_vec(), out, self.device().clone()))
    }

    /// These elements, with those of `source` at `places` of the flat order. It has no gradient rule.
    pub fn restore(&self, source: &Self, places: &[usize]) -> Result<Self> {
        self.like("restore", source)?;
        if let Some(&index) = places.iter().find(|&&place| place >= self.elem_count()) {
            return Err(Error::Index { what: "restore", index, size: self.elem_count() });
        }
        let out = self.device().backend().restore(self.storage(), source.storage(), places)?;
        Ok(Self::frozen(self.shape().to_vec(), out, self.device().clone()))
    }

    /// Refuses another shape or device, and gradients.
    fn like(&self, what: &'static str, other: &Self) -> Result<()> {
        if other.shape() != self.shape() {
            return Err(other.shape_error(what, format!("{:?}", self.shape())));
        }
        self.refuse_gradient(what)?;
        other.refuse_gradient(what)?;
        self.device().check_same(other.device(), what)
    }

    /// `self + grad` for gradients, in place where nothing else refers to `self`.
    pub(crate) fn accumulate(self, grad: &Self) -> Result<Self> {
        let (shape, device) = (self.shape().to_vec(), self.device().clone());
        let sum = device.backend().accumulate(self.into_storage(), grad.storage())?;
        Ok(Self::frozen(shape, sum, device.clone()))
    }

    fn map(&self, op: Unary) -> Result<Self> {
        let out = self.device().backend().unary(op, self.storage())?;
        let out = Self::frozen(self.shape().to_vec(), out, self.device().clone());
        let storage = out.storage().clone();
        Ok(self.derived(self.shape().to_vec(), storage, &[self.link()], || {
            let saved = match op {
                Unary::Exp | Unary::Sqrt => Some(out),
                Unary::Log => Some(self.detach()),
                _ => None,
            };
            MapRule { input: self.link().clone(), op, saved }
        }))
    }

    fn combine(&self, rhs: &Self, op: Binary, name: &'static str) -> Result<Self> {
        self.device().check_same(rhs.device(), name)?;
        let shape = broadcast(self.shape(), rhs.shape(), name)?;
        let backend = self.device().backend();
        let out = if self.shape() == rhs.shape() {
            backend.binary(op, self.storage(), rhs.storage())?
        } else {
            let strides =
                [broadcast_strides(self.shape(), &shape), broadcast_strides(rhs.shape(), &shape)];
            backend.binary_broadcast(
                op,
                &shape,
                (self.storage(), &strides[0]),
                (rhs.storage(), &strides[1]),
            )?
        };
        let links = [self.link(), rhs.link()];
        Ok(self.derived(shape, out, &links, || {
            let reads_values = matches!(op, Binary::Mul | Binary::Div);
            CombineRule {
                links: links.map(Clone::clone),
                shapes: [self.shape().to_vec(), rhs.shape().to_vec()],
                op,
                lhs: (reads_values && rhs.requires_grad()).then(|| self.detach()),
                rhs: reads_values.then(|| rhs.detach()),
            }
        }))
    }

    /// The sum over the axes along which a tensor of `shape` was repeated.
    fn sum_to(&self, shape: &[usize]) -> Result<Self> {
        let mut sum = self.clone();
        for axis in repeated_axes(shape, self.shape()) {
            sum = sum.sum(axis)?;
        }
        debug_assert_eq!(sum.elem_count(), elem_count(shape));
        sum.reshape(shape)
    }
}

struct MapRule {
    input: Link,
    op: Unary,
    saved: Option<Tensor>,
}

impl Rule for MapRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || match (self.op, &self.saved) {
            (Unary::Exp, Some(y)) => grad.mul(y),
            (Unary::Log, Some(x)) => grad.div(x),
            (Unary::Sqrt, Some(y)) => grad.scale(0.5)?.div(y),
            (Unary::Scale(factor), _) => grad.scale(factor),
            (Unary::AddScalar(_), _) => Ok(grad),
            (op, _) => unreachable!("{op:?} is not recorded by map"),
        })
    }
}

struct CombineRule {
    links: [Link; 2],
    shapes: [Vec<usize>; 2],
    op: Binary,
    lhs: Option<Tensor>,
    rhs: Option<Tensor>,
}

impl CombineRule {
    fn rhs(&self) -> &Tensor {
        self.rhs.as_ref().expect("saved for products and quotients")
    }

    fn lhs(&self) -> &Tensor {
        self.lhs.as_ref().expect("saved for products and quotients with a tracked right side")
    }
}

impl Rule for CombineRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.links[0], || {
            let full = match self.op {
                Binary::Add | Binary::Sub => grad.clone(),
                Binary::Mul => grad.mul(self.rhs())?,
                Binary::Div => grad.div(self.rhs())?,
            };
            full.sum_to(&self.shapes[0])
        })?;
        sink.add_to(&self.links[1], || {
            let full = match self.op {
                Binary::Add => grad,
                Binary::Sub => grad.neg()?,
                Binary::Mul => grad.mul(self.lhs())?,
                Binary::Div => grad.mul(self.lhs())?.div(self.rhs())?.div(self.rhs())?.neg()?,
            };
            full.sum_to(&self.shapes[1])
        })
    }
}
