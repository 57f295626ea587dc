//! Launches of the pooling kernels.

use super::Cuda;
use super::axes::window_arg;
use super::buffer::Buffer;
use super::driver::Arg;
use crate::Result;
use crate::backend::{Storage, Window};

impl Cuda {
    /// The largest element of each window, and its place in the plane.
    pub(super) fn pool_max(&self, window: &Window, x: &Buffer) -> Result<(Storage, Storage)> {
        let len = x.len() / window.input_len() * window.output_len();
        let (out, place) = (self.take_f32(len)?, self.take_f32(len)?);
        let [x, to, at] = [x, &out, &place].map(|x| Arg::Address(x.address()));
        self.each("max_pool", len, &[window_arg(window), x, to, at], len)?;
        Ok((Storage::Cuda(out), Storage::Cuda(place)))
    }

    pub(super) fn unpool_max(
        &self,
        window: &Window,
        place: &Buffer,
        grad: &Buffer,
    ) -> Result<Storage> {
        let len = grad.len() / window.output_len() * window.input_len();
        self.map("max_pool_backward", &[window_arg(window)], &[place, grad], len)
    }

    /// The mean of each window.
    pub(super) fn pool_mean(&self, window: &Window, x: &Buffer) -> Result<Storage> {
        let len = x.len() / window.input_len() * window.output_len();
        self.map("avg_pool", &[window_arg(window)], &[x], len)
    }

    pub(super) fn unpool_mean(&self, window: &Window, grad: &Buffer) -> Result<Storage> {
        let len = grad.len() / window.output_len() * window.input_len();
        self.map("avg_pool_backward", &[window_arg(window)], &[grad], len)
    }
}
