//! Launches of the kernels for augmented looks.

use super::Cuda;
use super::buffer::Buffer;
use super::driver::{Arg, Grid};
use super::elements::THREADS;
use crate::Result;
use crate::backend::Storage;
use crate::op::distort::{Distortion, Noise};

/// A look as the kernels read it: `struct Look` of `distort.cu`, four bytes a member.
fn words(look: &Distortion) -> Vec<f32> {
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
        let [looks_at, from, colored, to] =
            [&table, images, &colored, &out].map(|x| Arg::Address(x.address()));
        let grid = Grid::new([count, looks.len(), 1], [THREADS as u32, 1]);
        self.launch("distort_colors", grid, &[looks_at, from, colored, Arg::I32(pixels as i32)])?;
        let (given, std) = match noise {
            Noise::Normal(std) => (None, std),
            Noise::Given(values) => (Some(self.uploaded(values)?), 0.0),
        };
        let given = Arg::Address(given.as_ref().map_or(0, Buffer::address));
        let blocks = (count * pixels).div_ceil(THREADS);
        let grid = Grid::new([blocks, looks.len(), 1], [THREADS as u32, 1]);
        let sizes = [h, w].map(|side| Arg::I32(side as i32));
        let n = Arg::I64((count * pixels * looks.len()) as i64);
        let args = [looks_at, colored, given, Arg::F32(std), to, sizes[0], sizes[1], n];
        self.launch("distort_places", grid, &args)?;
        Ok(Storage::Cuda(out))
    }
}
