//! Arrays of bytes as NumPy saves them.

use std::path::Path;

use paint_data::Image;
use paint_files::npy::Npy;
use paint_files::{Dtype, Source};

/// The shape and the bytes of a `uint8` array.
pub(crate) fn read(path: &Path) -> (Vec<usize>, Vec<u8>) {
    let source = Source::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let Npy::Array(array) = Npy::open(&source).unwrap() else { panic!("{}", path.display()) };
    assert!(array.dtype == Dtype::U8 && !array.fortran_order, "{}", path.display());
    (array.shape, array.data.read_all().unwrap())
}

/// An array `[.., H, W, 3]` as images, the leading axes flattened.
pub(crate) fn images(path: &Path) -> Vec<Image> {
    let (shape, data) = read(path);
    let [.., height, width, 3] = shape[..] else { panic!("{shape:?} in {}", path.display()) };
    data.chunks_exact(height * width * 3)
        .map(|pixels| Image::new(width, height, pixels.to_vec()).unwrap())
        .collect()
}
