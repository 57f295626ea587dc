//! A batch made of stored images, one task per sample. The order within a sample: geometry, brightness, contrast,
//! saturation, tone, mixing, erasing; a value is kept in `[0, 1]` after each change of colour.

use super::parallel::for_rows;
use super::storage::host;
use crate::backend::Compose;
use crate::op::images::{Draw, Edge, Tone, View};

pub(super) fn compose(compose: &Compose, out: &mut [f32]) {
    let plane = compose.size[0] * compose.size[1];
    for_rows(out, 3 * plane, |first, out| {
        for (sample, out) in out.chunks_exact_mut(3 * plane).enumerate() {
            Sample::new(compose, &compose.draws[first + sample]).write(compose.size, out);
        }
    });
}

struct Sample<'a> {
    draw: &'a Draw,
    first: Looked<'a>,
    second: Option<Looked<'a>>,
}

impl<'a> Sample<'a> {
    fn new(compose: &'a Compose, draw: &'a Draw) -> Self {
        let second = draw.second.as_ref().map(|view| Looked::new(compose, view));
        Self { draw, first: Looked::new(compose, &draw.first), second }
    }

    fn write(&self, [height, width]: [usize; 2], out: &mut [f32]) {
        for y in 0..height {
            for x in 0..width {
                let rgb = self.pixel(y, x);
                for (c, value) in rgb.into_iter().enumerate() {
                    out[(c * height + y) * width + x] = value;
                }
            }
        }
    }

    fn pixel(&self, y: usize, x: usize) -> [f32; 3] {
        if self.draw.erased.contains(y, x) {
            return [0.5; 3];
        }
        let Some(second) = &self.second else { return self.first.pixel(y, x) };
        if self.draw.cut.contains(y, x) {
            return second.pixel(y, x);
        }
        let (a, b, w) = (self.first.pixel(y, x), second.pixel(y, x), self.draw.weight);
        [0, 1, 2].map(|c| w * a[c] + (1.0 - w) * b[c])
    }
}

/// A view, and the image it looks at.
struct Looked<'a> {
    words: &'a [f32],
    /// The image's first byte.
    start: usize,
    size: [usize; 2],
    edge: Edge,
    view: &'a View,
    /// The mean luma after brightness; used where the contrast changes.
    mean: f32,
}

impl<'a> Looked<'a> {
    fn new(compose: &'a Compose, view: &'a View) -> Self {
        let size = compose.stored;
        let pixels = size[0] * size[1];
        let (words, start) = (host(compose.bytes), view.index * 3 * pixels);
        let mut looked = Self { words, start, size, edge: compose.edge, view, mean: 0.0 };
        if view.contrast != 1.0 {
            let bright = |i: usize| looked.stored(i).map(|x| (view.brightness * x).clamp(0.0, 1.0));
            looked.mean = (0..pixels).map(|i| luma(bright(i))).sum::<f32>() / pixels as f32;
        }
        looked
    }

    /// Pixel `i` of the stored image.
    fn stored(&self, i: usize) -> [f32; 3] {
        let plane = self.size[0] * self.size[1];
        [0, 1, 2].map(|c| {
            let at = self.start + c * plane + i;
            f32::from(self.words[at / 4].to_bits().to_le_bytes()[at % 4]) / 255.0
        })
    }

    fn pixel(&self, y: usize, x: usize) -> [f32; 3] {
        let View { matrix: m, brightness, contrast, saturation, tone, .. } = *self.view;
        let (y, x) = (y as f32, x as f32);
        let rgb = self.between(m[0] * y + m[1] * x + m[2], m[3] * y + m[4] * x + m[5]);
        let rgb = rgb.map(|v| (brightness * v).clamp(0.0, 1.0));
        let rgb = rgb.map(|v| (contrast * v + (1.0 - contrast) * self.mean).clamp(0.0, 1.0));
        let grey = luma(rgb);
        let rgb = rgb.map(|v| (saturation * v + (1.0 - saturation) * grey).clamp(0.0, 1.0));
        match tone {
            Tone::Natural => rgb,
            Tone::Grey => [luma(rgb); 3],
            Tone::Solarized => rgb.map(|v| if v < 0.5 { v } else { 1.0 - v }),
        }
    }

    /// The stored image at a place between its pixels.
    fn between(&self, y: f32, x: f32) -> [f32; 3] {
        let [height, width] = self.size;
        let (Some((y, dy)), Some((x, dx))) = (self.place(y, height), self.place(x, width)) else {
            return [0.0; 3];
        };
        let (below, right) = ((y + 1).min(height - 1), (x + 1).min(width - 1));
        let row = |y: usize| {
            let (a, b) = (self.stored(y * width + x), self.stored(y * width + right));
            [0, 1, 2].map(|c| (1.0 - dx) * a[c] + dx * b[c])
        };
        let (a, b) = (row(y), row(below));
        [0, 1, 2].map(|c| (1.0 - dy) * a[c] + dy * b[c])
    }

    /// The pixel before a place along an axis of `n`, and how far behind it the place is; none outside the image.
    fn place(&self, at: f32, n: usize) -> Option<(usize, f32)> {
        let last = (n - 1) as f32;
        let at = match self.edge {
            Edge::Zeros if (-0.5..last + 0.5).contains(&at) => at,
            Edge::Zeros => return None,
            Edge::Reflect => {
                let at = at.abs();
                if at > last { 2.0 * last - at } else { at }
            }
        };
        let at = at.clamp(0.0, last);
        Some((at as usize, at - at.floor()))
    }
}

fn luma([r, g, b]: [f32; 3]) -> f32 {
    0.299 * r + 0.587 * g + 0.114 * b
}
