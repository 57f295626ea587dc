//! The views of PEA: the image, its middle enlarged, and its mirror image.

use paint_tensor::{Device, Tensor};

use crate::Result;

/// The image, and as many of the others as are asked for: the middle `crop` of it enlarged, then the mirror image.
pub(super) fn views(images: &Tensor, others: usize, crop: f64) -> Result<Vec<Tensor>> {
    let mut views = vec![images.clone()];
    if others > 0 {
        views.push(enlarged(images, crop)?);
    }
    if others > 1 {
        views.push(mirrored(images)?);
    }
    Ok(views)
}

/// `[B, 3, H, W]` with the columns the other way round.
fn mirrored(images: &Tensor) -> Result<Tensor> {
    let [_, _, _, w] = images.dims4("images")?;
    let columns: Vec<usize> = (0..w).rev().collect();
    Ok(images.permute(&[3, 0, 1, 2])?.gather(&columns)?.permute(&[1, 2, 3, 0])?)
}

/// The middle share of each side at the size of the image, bilinear.
fn enlarged(images: &Tensor, crop: f64) -> Result<Tensor> {
    let [_, _, h, w] = images.dims4("images")?;
    let device = images.device();
    let wide = images.linear(&enlarging(w, crop, device)?, None)?;
    let tall = wide.transpose(2, 3)?.linear(&enlarging(h, crop, device)?, None)?;
    Ok(tall.transpose(2, 3)?)
}

/// The matrix `[n, n]` that enlarges the middle of a side of `n` pixels, as PyTorch interpolates without aligned
/// corners.
fn enlarging(n: usize, crop: f64, device: &Device) -> Result<Tensor> {
    let kept = ((n as f64 * crop).round_ties_even() as usize).clamp(1, n);
    let first = ((n - kept) as f64 / 2.0).round_ties_even() as usize;
    let mut matrix = vec![0.0_f32; n * n];
    for (at, row) in matrix.chunks_exact_mut(n).enumerate() {
        let place = ((at as f64 + 0.5) * kept as f64 / n as f64 - 0.5).max(0.0);
        let (low, share) = (place as usize, place.fract() as f32);
        row[first + low] += 1.0 - share;
        row[first + (low + 1).min(kept - 1)] += share;
    }
    Ok(Tensor::from_vec(matrix, [n, n], device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(data: &[f32]) -> Tensor {
        Tensor::from_vec(data.to_vec(), [1, 1, 1, data.len()], &Device::cpu()).unwrap()
    }

    #[test]
    fn a_mirror_image_and_an_enlarged_middle_by_hand() {
        let images = row(&[0.0, 1.0, 2.0, 3.0]);
        assert_eq!(mirrored(&images).unwrap().to_vec().unwrap(), [3.0, 2.0, 1.0, 0.0]);
        // Pixels 1 and 2 at twice their size: places -0.25 (clamped to 0), 0.25, 0.75 and 1.25 (the last pixel).
        assert_eq!(enlarged(&images, 0.5).unwrap().to_vec().unwrap(), [1.0, 1.25, 1.75, 2.0]);
        assert_eq!(enlarged(&images, 1.0).unwrap().to_vec().unwrap(), images.to_vec().unwrap());
    }
}
