//! Images that stay on the device as bytes, and batches made of them: geometry, colour, mixing and erasing in one pass.
//!
//! The caller draws what is done to each sample, so the same draws make the same batch on every device (up to the
//! rounding of the interpolation).

use crate::backend::{Compose, Storage};
use crate::shape::checked_count;
use crate::{Device, Error, Result, Tensor};

/// What lies outside a stored image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edge {
    /// Black.
    #[default]
    Zeros,
    /// The image mirrored at the centre of its outermost pixels.
    Reflect,
}

/// What happens to the colours after brightness, contrast and saturation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing.
    #[default]
    Natural,
    /// Every channel becomes the luma.
    Grey,
    /// Values from one half up are inverted.
    Solarized,
}

/// One look at one stored image. The default leaves an image of the batch's size as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// Which image.
    pub index: usize,
    /// Where pixel `(y, x)` of the batch is read: row `m₀ y + m₁ x + m₂`, column `m₃ y + m₄ x + m₅`, between pixels by
    /// linear interpolation.
    pub matrix: [f32; 6],
    /// Factor of every value.
    pub brightness: f32,
    /// Factor of the distance from the mean luma of the whole stored image.
    pub contrast: f32,
    /// Factor of the distance from each pixel's luma.
    pub saturation: f32,
    /// What happens to the colours after that.
    pub tone: Tone,
}

impl View {
    /// Image `index` as it is.
    pub fn new(index: usize) -> Self {
        Self {
            index,
            matrix: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            brightness: 1.0,
            contrast: 1.0,
            saturation: 1.0,
            tone: Tone::Natural,
        }
    }

    /// Image `index` of size `stored` stretched to `size`, pixel centres on pixel centres of the same picture.
    pub fn stretched(index: usize, stored: [usize; 2], size: [usize; 2]) -> Self {
        let scale = [0, 1].map(|axis| stored[axis] as f64 / size[axis] as f64);
        let start = scale.map(|scale| (0.5 * scale - 0.5) as f32);
        let scale = scale.map(|scale| scale as f32);
        Self { matrix: [scale[0], 0.0, start[0], 0.0, scale[1], start[1]], ..Self::new(index) }
    }
}

/// A rectangle of pixels: rows `top..bottom`, columns `left..right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rect {
    /// The first row.
    pub top: usize,
    /// The first column.
    pub left: usize,
    /// The row after the last.
    pub bottom: usize,
    /// The column after the last.
    pub right: usize,
}

impl Rect {
    /// How many pixels it has.
    pub fn area(&self) -> usize {
        self.bottom.saturating_sub(self.top) * self.right.saturating_sub(self.left)
    }

    pub(crate) fn contains(&self, y: usize, x: usize) -> bool {
        (self.top..self.bottom).contains(&y) && (self.left..self.right).contains(&x)
    }
}

/// How one image of a batch is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// The image.
    pub first: View,
    /// What is mixed into it.
    pub second: Option<View>,
    /// The weight of the first image outside `cut`.
    pub weight: f32,
    /// Where only the second image shows.
    pub cut: Rect,
    /// What is painted over in the end, in mid grey.
    pub erased: Rect,
}

impl Draw {
    /// One view, unmixed.
    pub fn plain(first: View) -> Self {
        let (cut, erased) = (Rect::default(), Rect::default());
        Self { first, second: None, weight: 1.0, cut, erased }
    }
}

/// Images `[N, 3, H, W]` on a device, one byte per value.
#[derive(Clone)]
pub struct Images {
    bytes: Storage,
    count: usize,
    size: [usize; 2],
    device: Device,
}

impl Images {
    /// Copies images to a device; `bytes` are `[N, 3, H, W]` with `[H, W]` as `size`.
    pub fn new(bytes: &[u8], size: [usize; 2], device: &Device) -> Result<Self> {
        let one = checked_count(&[3, size[0], size[1]], "images")?;
        if one == 0 || !bytes.len().is_multiple_of(one) {
            return Err(Error::Shape {
                what: "images",
                expected: format!("[N, 3, {}, {}] bytes", size[0], size[1]),
                got: vec![bytes.len()],
            });
        }
        let word = |chunk: &[u8]| {
            let mut four = [0; 4];
            four[..chunk.len()].copy_from_slice(chunk);
            f32::from_bits(u32::from_le_bytes(four))
        };
        let words = bytes.chunks(4).map(word).collect();
        let storage = device.backend().upload(words)?;
        Ok(Self { bytes: storage, count: bytes.len() / one, size, device: device.clone() })
    }

    /// `N`.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there is no image.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// `[H, W]`.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// A batch `[B, 3, H', W']` in `[0, 1]`, one image for each draw.
    pub fn compose(&self, draws: &[Draw], size: [usize; 2], edge: Edge) -> Result<Tensor> {
        let views = draws.iter().flat_map(|draw| [Some(draw.first), draw.second]).flatten();
        for View { index, .. } in views {
            if index >= self.count {
                return Err(Error::Index { what: "image", index, size: self.count });
            }
        }
        let shape = vec![draws.len(), 3, size[0], size[1]];
        checked_count(&shape, "compose")?;
        let compose = Compose { bytes: &self.bytes, stored: self.size, size, edge, draws };
        let batch = self.device.backend().compose(&compose)?;
        Ok(Tensor::frozen(shape, batch, self.device.clone()))
    }
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Images({} of {:?}, {})", self.count, self.size, self.device)
    }
}

#[cfg(test)]
mod tests;
