//! Arrays of bytes as NumPy saves them.

use std::path::Path;

use paint_data::Image;

/// The shape and the bytes of a `uint8` array.
pub(crate) fn read(path: &Path) -> (Vec<usize>, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..start]).unwrap();
    assert!(header.contains("'|u1'") && header.contains("'fortran_order': False"), "{header}");
    let (_, shape) = header.split_once("'shape': (").unwrap();
    let (shape, _) = shape.split_once(')').unwrap();
    let shape: Vec<usize> = shape
        .split(',')
        .filter(|side| !side.trim().is_empty())
        .map(|side| side.trim().parse().unwrap())
        .collect();
    let data = bytes[start..].to_vec();
    assert_eq!(shape.iter().product::<usize>(), data.len(), "{}", path.display());
    (shape, data)
}

/// An array `[.., H, W, 3]` as images, the leading axes flattened.
pub(crate) fn images(path: &Path) -> Vec<Image> {
    let (shape, data) = read(path);
    let [.., height, width, 3] = shape[..] else { panic!("{shape:?} in {}", path.display()) };
    data.chunks_exact(height * width * 3)
        .map(|pixels| Image::new(width, height, pixels.to_vec()).unwrap())
        .collect()
}
