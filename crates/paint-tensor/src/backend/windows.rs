//! Attention inside windows: groups of rows that attend among themselves, with a bias of the scores.

use super::{AttentionGrad, Storage};
use crate::Result;

/// `softmax(Q Kᵀ / sqrt(D/h) + bias + mask) V` per head and window, heads side by side in a row.
#[derive(Clone, Copy)]
pub(crate) struct WindowAttention<'a> {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    /// Rows `n` of a window.
    pub(crate) len: usize,
    /// The rows of an image, window by window; each row is in one window.
    pub(crate) places: &'a [usize],
    /// Rows `[q | k | v]`, `[B, N, 3D]`.
    pub(crate) qkv: &'a Storage,
    /// `[h, n, n]`.
    pub(crate) bias: &'a Storage,
    /// `[windows, n, n]`.
    pub(crate) mask: Option<&'a Storage>,
}

impl WindowAttention<'_> {
    pub(crate) fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    pub(crate) fn scale(&self) -> f32 {
        (self.head_dim as f32).sqrt().recip()
    }
}

/// Whether the gradient of the bias is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BiasGradient {
    Omit,
    Compute,
}

/// The kernels of a device that has its own; elsewhere the operation is made of others.
pub(crate) trait WindowKernels {
    /// The output `[B, N, D]` and `log Σ exp` of the scores `[B, windows, h, n]`.
    fn window_attention(&self, attention: &WindowAttention) -> Result<(Storage, Storage)>;
    /// The gradients of the packed rows `[B, N, 3D]` and of the bias `[h, n, n]`.
    fn window_attention_backward(
        &self,
        attention: &WindowAttention,
        saved: &AttentionGrad,
        bias: BiasGradient,
    ) -> Result<(Storage, Option<Storage>)>;
}
