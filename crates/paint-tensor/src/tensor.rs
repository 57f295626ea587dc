//! `Tensor`: shape, data, device, and its place in the recorded computation.

use std::fmt;

use crate::backend::{self, Storage};
use crate::shape::{checked_count, elem_count};
use crate::tape::{Link, Node, Rule};
use crate::{Device, Error, Result};

/// An immutable, contiguous, row-major block of `f32` numbers, which a GPU may store as bf16 ([`Tensor::compact`]).
/// Cloning shares the data.
#[derive(Clone)]
pub struct Tensor {
    shape: Vec<usize>,
    storage: Storage,
    device: Device,
    link: Link,
}

impl Tensor {
    /// A tensor with the given elements in row-major order.
    pub fn from_vec(data: Vec<f32>, shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        let shape = shape.as_ref();
        if data.len() != checked_count(shape, "from_vec")? {
            let expected = format!("a shape with {} elements", data.len());
            return Err(Error::Shape { what: "from_vec", expected, got: shape.to_vec() });
        }
        Ok(Self::frozen(shape.to_vec(), device.backend().upload(data)?, device.clone()))
    }

    /// A tensor whose elements `write` sets, all of them, in row-major order. On the CPU it writes to where they stay;
    /// what lies there before is arbitrary.
    pub fn build<E: From<Error>>(
        shape: impl AsRef<[usize]>,
        device: &Device,
        write: impl FnOnce(&mut [f32]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let shape = shape.as_ref().to_vec();
        let (mut write, mut done) = (Some(write), Ok(()));
        let mut once = |out: &mut [f32]| {
            if let Some(write) = write.take() {
                done = write(out);
            }
        };
        let storage = device.backend().write(checked_count(&shape, "build")?, &mut once)?;
        done.map(|()| Self::frozen(shape, storage, device.clone()))
    }

    /// A tensor with every element equal to `value`.
    pub fn full(shape: impl AsRef<[usize]>, value: f32, device: &Device) -> Result<Self> {
        let shape = shape.as_ref().to_vec();
        let storage = device.backend().fill(checked_count(&shape, "full")?, value)?;
        Ok(Self::frozen(shape, storage, device.clone()))
    }

    /// A tensor of zeros.
    pub fn zeros(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Self::full(shape, 0.0, device)
    }

    pub(crate) fn frozen(shape: Vec<usize>, storage: Storage, device: Device) -> Self {
        debug_assert_eq!(storage.len(), elem_count(&shape), "storage of shape {shape:?}");
        Self { shape, storage, device, link: None }
    }

    /// The result of an operation on `self`. The rule is made only if one of the inputs is tracked.
    pub(crate) fn derived<R: Rule + 'static>(
        &self,
        shape: Vec<usize>,
        storage: Storage,
        inputs: &[&Link],
        rule: impl FnOnce() -> R,
    ) -> Self {
        let mut out = Self::frozen(shape, storage, self.device.clone());
        if inputs.iter().any(|link| link.is_some()) {
            out.link = Some(Node::of(rule()));
        }
        out
    }

    /// The same data as a variable: a leaf that gradients reach.
    #[must_use]
    pub fn variable(&self) -> Self {
        Self { link: Some(Node::leaf()), ..self.clone() }
    }

    /// The same data with no path for gradients.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self { link: None, ..self.clone() }
    }

    /// True if a variable lies below this tensor.
    pub fn requires_grad(&self) -> bool {
        self.link.is_some()
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn elem_count(&self) -> usize {
        self.storage.len()
    }

    /// The device that holds the data.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn dims<const R: usize>(&self, what: &'static str) -> Result<[usize; R]> {
        <[usize; R]>::try_from(self.shape.as_slice()).map_err(|_| Error::Shape {
            what,
            expected: format!("{R} axes"),
            got: self.shape.clone(),
        })
    }

    /// The sizes of a tensor with one axis; `what` names it in the error.
    pub fn dims1(&self, what: &'static str) -> Result<[usize; 1]> {
        self.dims(what)
    }

    /// The sizes of a tensor with two axes; `what` names it in the error.
    pub fn dims2(&self, what: &'static str) -> Result<[usize; 2]> {
        self.dims(what)
    }

    /// The sizes of a tensor with three axes; `what` names it in the error.
    pub fn dims3(&self, what: &'static str) -> Result<[usize; 3]> {
        self.dims(what)
    }

    /// The sizes of a tensor with four axes; `what` names it in the error.
    pub fn dims4(&self, what: &'static str) -> Result<[usize; 4]> {
        self.dims(what)
    }

    /// The elements, copied to the host.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        self.device.backend().download(&self.storage)
    }

    /// Begins to copy the elements to the host, which may queue further work before it waits for them. None while a
    /// [`Routine`](crate::Routine) is recorded: the values exist only in its replays.
    pub fn fetch(&self) -> Result<Option<Fetch>> {
        Ok(self.device.backend().fetch(&self.storage)?.map(Fetch))
    }

    /// The only element.
    pub fn item(&self) -> Result<f32> {
        match self.to_vec()?[..] {
            [value] => Ok(value),
            _ => Err(Error::Shape {
                what: "item",
                expected: "one element".to_owned(),
                got: self.shape.clone(),
            }),
        }
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// For an operation that consumes the tensor.
    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }

    pub(crate) fn into_storage(self) -> Storage {
        self.storage
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// The error for an operation whose gradient does not exist, if the input is tracked.
    pub(crate) fn refuse_gradient(&self, op: &'static str) -> Result<()> {
        if self.requires_grad() { Err(Error::NoGradient { op }) } else { Ok(()) }
    }

    pub(crate) fn shape_error(&self, what: &'static str, expected: impl Into<String>) -> Error {
        Error::Shape { what, expected: expected.into(), got: self.shape.clone() }
    }
}

/// The elements of a tensor on their way to the host ([`Tensor::fetch`]).
pub struct Fetch(backend::Fetch);

impl Fetch {
    /// Whether they are on the host already, as those of a CPU are.
    pub fn is_here(&self) -> bool {
        matches!(self.0, backend::Fetch::Here(_))
    }

    /// Waits for them.
    pub fn finish(self) -> Result<Vec<f32>> {
        match self.0 {
            backend::Fetch::Here(data) => Ok(data),
            #[cfg(feature = "cuda")]
            backend::Fetch::Coming(fetched) => fetched.finish(),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?}, {}, tracked: {})", self.shape, self.device, self.requires_grad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_does_not_fit_the_data_is_refused() {
        let error = Tensor::from_vec(vec![0.0; 5], [2, 3], &Device::cpu()).unwrap_err().to_string();
        assert!(error.contains('5') && error.contains("[2, 3]"), "{error}");
    }

    #[test]
    fn item_needs_exactly_one_element() {
        assert!(Tensor::zeros([2], &Device::cpu()).unwrap().item().is_err());
        assert_eq!(Tensor::full([1, 1], 3.0, &Device::cpu()).unwrap().item().unwrap(), 3.0);
    }
}
