//! Launches of the pooling kernels.

use super::Cuda;
use super::buffer::Buffer;
use super::param::structures;
use crate::Result;
use crate::backend::{self, Storage};

structures! {
    /// Square windows over planes.
    struct Window {
        height: i32,
        width: i32,
        side: i32,
        stride: i32,
        padding: i32,
        out_height: i32,
        out_width: i32,
    }
}

impl Window {
    fn new(window: &backend::Window) -> Self {
        let backend::Window { input, side, stride, padding, output } = *window;
        let [height, width, out_height, out_width] =
            [input[0], input[1], output[0], output[1]].map(|size| size as i32);
        let [side, stride, padding] = [side, stride, padding].map(|size| size as i32);
        Self { height, width, side, stride, padding, out_height, out_width }
    }
}

impl Cuda {
    /// The largest element of each window, and its place in the plane.
    pub(super) fn pool_max(
        &self,
        window: &backend::Window,
        x: &Buffer,
    ) -> Result<(Storage, Storage)> {
        let len = x.len() / window.input_len() * window.output_len();
        let (out, place) = (self.take_f32(len)?, self.take_f32(len)?);
        let params = (Window::new(window), x.read(), out.write(), place.write(), len as i64);
        self.each(&self.kernels.planes.max_pool, len, len, params)?;
        Ok((Storage::Cuda(out), Storage::Cuda(place)))
    }

    pub(super) fn unpool_max(
        &self,
        window: &backend::Window,
        place: &Buffer,
        grad: &Buffer,
    ) -> Result<Storage> {
        let len = grad.len() / window.output_len() * window.input_len();
        let kernel = &self.kernels.planes.max_pool_backward;
        self.map(kernel, len, |dx, n| (Window::new(window), place.read(), grad.read(), dx, n))
    }

    /// The mean of each window.
    pub(super) fn pool_mean(&self, window: &backend::Window, x: &Buffer) -> Result<Storage> {
        let len = x.len() / window.input_len() * window.output_len();
        let kernel = &self.kernels.planes.avg_pool;
        self.map(kernel, len, |out, n| (Window::new(window), x.read(), out, n))
    }

    pub(super) fn unpool_mean(&self, window: &backend::Window, grad: &Buffer) -> Result<Storage> {
        let len = grad.len() / window.output_len() * window.input_len();
        let kernel = &self.kernels.planes.avg_pool_backward;
        self.map(kernel, len, |dx, n| (Window::new(window), grad.read(), dx, n))
    }
}
