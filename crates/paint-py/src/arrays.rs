//! numpy arrays in and out. What comes in is copied once, into the memory that the model reads, while the interpreter
//! lock keeps others from writing to it; what goes out is handed over without a copy.

use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{
    IntoPyArray as _, PyArray4, PyArrayDyn, PyArrayMethods as _, PyUntypedArrayMethods as _,
};
use paint_tta::Image;
use paint_tta::method::Tensor;
use pyo3::prelude::*;

use crate::error::{Error, ImageError, raised};

/// Images as they were given.
pub(crate) enum Given {
    /// Of any size.
    Bytes(Vec<Image>),
    /// `[B, 3, H, W]` in [0, 1].
    Floats(Vec<f32>, [usize; 4]),
}

const EXPECTED: &str =
    "images: expected uint8 [B, H, W, 3], or float32 [B, 3, H, W] in [0, 1] at the model's size";

impl Given {
    /// Reads an array whose elements lie in order.
    pub(crate) fn read(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(floats) = array.cast::<PyArray4<f32>>() {
            let floats = floats.readonly();
            let &[b, c, h, w] = floats.shape() else { return Err(refused(array)) };
            return Ok(Self::Floats(floats.as_slice()?.to_vec(), [b, c, h, w]));
        }
        Ok(Self::Bytes(images(array)?))
    }

    /// The batch as `adapter` takes it.
    pub(crate) fn fitted(self, adapter: &paint_tta::Adapter) -> paint_tta::Result<Tensor> {
        match self {
            Self::Bytes(images) => adapter.fitted(&images),
            Self::Floats(data, shape) => Ok(Tensor::from_vec(data, shape, adapter.device())?),
        }
    }
}

/// Images of an array uint8 `[B, H, W, 3]`.
pub(crate) fn images(array: &Bound<'_, PyAny>) -> PyResult<Vec<Image>> {
    let bytes = array.cast::<PyArray4<u8>>().map_err(|_| refused(array))?.readonly();
    let &[_, height, width, 3] = bytes.shape() else { return Err(refused(array)) };
    let image =
        |pixels: &[u8]| Image::new(width, height, pixels.to_vec()).map_err(|e| raised(e.into()));
    let bytes = bytes.as_slice()?;
    bytes.chunks_exact((3 * height * width).max(1)).map(image).collect()
}

/// Images of one size as an array uint8 `[B, H, W, 3]`.
pub(crate) fn from_images(
    py: Python<'_>,
    images: Vec<Image>,
) -> PyResult<Bound<'_, PyArrayDyn<u8>>> {
    let size = images.first().map_or([0, 0], |image| [image.height(), image.width()]);
    let shape = [images.len(), size[0], size[1], 3];
    handed_over(py, &shape, images.into_iter().flat_map(Image::into_pixels).collect())
}

/// An array that owns `data`.
pub(crate) fn handed_over<'py, T: numpy::Element>(
    py: Python<'py>,
    shape: &[usize],
    data: Vec<T>,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let array = ArrayD::from_shape_vec(IxDyn(shape), data);
    Ok(array.map_err(|error| Error::new_err(error.to_string()))?.into_pyarray(py))
}

fn refused(array: &Bound<'_, PyAny>) -> PyErr {
    let told = |name: &str| array.getattr(name).map_or_else(|_| "?".into(), |x| x.to_string());
    ImageError::new_err(format!("{EXPECTED}, got {} {}", told("dtype"), told("shape")))
}
