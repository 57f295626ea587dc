//! Launches of the kernels for augmented looks.

use super::Cuda;
use super::buffer::Buffer;
use super::compile::Define;
use super::driver::Grid;
use super::elements::THREADS;
use super::param::Read;
use crate::Result;
use crate::backend::Storage;
use crate::op::distort::{BLUR_TAPS, ColorOp, Distortion, Noise};

/// The numbers of the colour operations, under the names that the kernels use, and the size of the blur.
pub(super) fn constants() -> Vec<Define> {
    let number = |op: ColorOp| {
        let name = match op {
            ColorOp::Brightness => "COLOR_BRIGHTNESS",
            ColorOp::Contrast => "COLOR_CONTRAST",
            ColorOp::Saturation => "COLOR_SATURATION",
            ColorOp::Hue => "COLOR_HUE",
            ColorOp::Gamma => "COLOR_GAMMA",
        };
        (name, op as usize)
    };
    ColorOp::ALL.map(number).into_iter().chain([("TAPS", BLUR_TAPS)]).collect()
}

/// A look as the kernels read it: `struct Look` of `distort.cu`, four bytes per member.
pub(super) fn words(look: &Distortion) -> Vec<f32> {
    let integer = |x: usize| f32::from_bits(x as u32);
    let ops = look.colors.iter().map(|&(op, _)| integer(op as usize));
    let factors = look.colors.iter().map(|&(_, factor)| factor);
    let matrix = look.matrix.iter().map(|&x| x as f32);
    let rest = [
        integer(look.pad[0]),
        integer(look.pad[1]),
        integer(usize::from(look.flip)),
        f32::from_bits(look.seed as u32),
        f32::from_bits((look.seed >> 32) as u32),
    ];
    ops.chain(factors).chain(matrix).chain(look.blur).chain(rest).collect()
}

impl Cuda {
    pub(super) fn distorted(
        &self,
        images: &Buffer,
        [h, w]: [usize; 2],
        looks: &[Distortion],
        noise: Noise,
    ) -> Result<Storage> {
        let (pixels, count) = (h * w, images.len() / (3 * h * w));
        let out = self.take_f32(images.len() * looks.len())?;
        if out.len() == 0 {
            return Ok(Storage::Cuda(out));
        }
        let table = self.uploaded(&looks.iter().flat_map(words).collect::<Vec<_>>())?;
        let colored = self.take_f32(out.len())?;
        let grid = Grid::new([count, looks.len(), 1], [THREADS as u32, 1]);
        let params = (table.read(), images.read(), colored.write(), pixels as i32);
        self.gpu.launch(&self.kernels.distort.distort_colors, grid, params)?;
        let (given, std) = match noise {
            Noise::Normal(std) => (None, std),
            Noise::Given(values) => (Some(self.uploaded(values)?), 0.0),
        };
        let given = given.as_ref().map_or(Read::NONE, Buffer::read);
        let blocks = (count * pixels).div_ceil(THREADS);
        let grid = Grid::new([blocks, looks.len(), 1], [THREADS as u32, 1]);
        let [h, w] = [h, w].map(|side| side as i32);
        let n = (count * pixels * looks.len()) as i64;
        let params = (table.read(), colored.read(), given, std, out.write(), h, w, n);
        self.gpu.launch(&self.kernels.distort.distort_places, grid, params)?;
        Ok(Storage::Cuda(out))
    }
}
