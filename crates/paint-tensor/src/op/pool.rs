//! Pooling over square windows of images.

use crate::backend::{Storage, Window};
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

/// Places in a plane are stored as `f32`, which is exact for whole numbers up to this one.
const MOST_PIXELS: usize = 1 << 24;

impl Tensor {
    /// The largest element of windows of `side`, `[B, C, H, W]` → `[B, C, (H + 2 padding - side) / stride + 1, ..]`.
    /// The first of equal elements gets the gradient.
    pub fn max_pool(&self, side: usize, stride: usize, padding: usize) -> Result<Self> {
        let (window, shape) = self.windows("max_pool", side, stride, padding)?;
        let (out, place) = self.device().backend().max_pool(&window, self.storage())?;
        Ok(self.derived(shape, out, &[self.link()], || PoolRule {
            input: self.link().clone(),
            window,
            shape: self.shape().to_vec(),
            place: Some(place),
        }))
    }

    /// The mean of windows of `side`, `[B, C, H, W]` → `[B, C, (H - side) / stride + 1, ..]`. With `side` 1 it keeps
    /// every `stride`-th pixel.
    pub fn avg_pool(&self, side: usize, stride: usize) -> Result<Self> {
        let (window, shape) = self.windows("avg_pool", side, stride, 0)?;
        let out = self.device().backend().avg_pool(&window, self.storage())?;
        Ok(self.derived(shape, out, &[self.link()], || PoolRule {
            input: self.link().clone(),
            window,
            shape: self.shape().to_vec(),
            place: None,
        }))
    }

    /// The mean of each plane, `[B, C, H, W]` → `[B, C]`.
    pub fn global_avg_pool(&self) -> Result<Self> {
        let [b, c, h, w] = self.dims4("global_avg_pool")?;
        self.reshape([b, c, h * w])?.mean(2)
    }

    fn windows(
        &self,
        what: &'static str,
        side: usize,
        stride: usize,
        padding: usize,
    ) -> Result<(Window, Vec<usize>)> {
        let [b, c, h, w] = self.dims4(what)?;
        let fits = padding <= side / 2
            && [h, w].iter().all(|axis| *axis > 0 && axis.saturating_add(2 * padding) >= side);
        if !fits || side == 0 || stride == 0 || h * w > MOST_PIXELS {
            let expected = format!(
                "[B, C, H, W] for windows of {side} with padding {padding}, {stride} apart"
            );
            return Err(self.shape_error(what, expected));
        }
        let output = [h, w].map(|axis| (axis + 2 * padding - side) / stride + 1);
        let window = Window { input: [h, w], side, stride, padding, output };
        Ok((window, vec![b, c, output[0], output[1]]))
    }
}

struct PoolRule {
    input: Link,
    window: Window,
    shape: Vec<usize>,
    /// Where the maxima came from; a mean has none.
    place: Option<Storage>,
}

impl Rule for PoolRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            let backend = grad.device().backend();
            let dx = match &self.place {
                Some(place) => backend.max_pool_backward(&self.window, place, grad.storage())?,
                None => backend.avg_pool_backward(&self.window, grad.storage())?,
            };
            Ok(Tensor::frozen(self.shape.clone(), dx, grad.device().clone()))
        })
    }
}
