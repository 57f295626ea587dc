//! A residual block: two or three convolutions, added to a shortcut.

use paint_tensor::Tensor;

use crate::error::Result;
use crate::layers::{ChannelNorm, Conv, NormPass};
use crate::params::Params;

/// Whether norm and ReLU follow a convolution or precede it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backbone) enum Order {
    /// `relu(shortcut(x) + norm(conv(.. relu(norm(conv(x))))))` (He et al. 2016a).
    PostActivation,
    /// `shortcut(x) + conv(relu(norm(.. conv(relu(norm(x))))))` (He et al. 2016b).
    PreActivation,
}

/// The path around the convolutions.
#[derive(Debug, Clone)]
pub(in crate::backbone) enum Shortcut {
    Identity,
    /// The mean of `window`² pixels, every `stride`-th one, between channels of zeros. A window of one pixel keeps
    /// every `stride`-th pixel ("option A").
    Zeros {
        window: usize,
        stride: usize,
        before: usize,
        after: usize,
    },
    /// A convolution of single pixels, and a norm after activation-last blocks. In a pre-activation block it reads the
    /// activated input (Zagoruyko & Komodakis 2016).
    Conv {
        conv: Conv,
        norm: Option<ChannelNorm>,
    },
}

#[derive(Debug, Clone)]
pub(in crate::backbone) struct Block {
    pub(in crate::backbone) order: Order,
    /// Convolutions with the norm that belongs to each.
    pub(in crate::backbone) layers: Vec<(Conv, ChannelNorm)>,
    pub(in crate::backbone) shortcut: Shortcut,
}

impl Block {
    /// `[B, I, H, W]` → `[B, O, H', W']`.
    pub(super) fn forward(&self, params: &Params, x: &Tensor, pass: &NormPass) -> Result<Tensor> {
        match self.order {
            Order::PostActivation => self.post_activation(params, x, pass),
            Order::PreActivation => self.pre_activation(params, x, pass),
        }
    }

    fn post_activation(&self, params: &Params, x: &Tensor, pass: &NormPass) -> Result<Tensor> {
        let mut y = x.clone();
        for (i, (conv, norm)) in self.layers.iter().enumerate() {
            y = conv.forward(params, &y)?;
            let is_last = i + 1 == self.layers.len();
            let residual = is_last.then(|| self.shortcut.forward(params, x, pass)).transpose()?;
            y = norm.forward_relu(params, &y, residual.as_ref(), pass)?;
        }
        Ok(y)
    }

    fn pre_activation(&self, params: &Params, x: &Tensor, pass: &NormPass) -> Result<Tensor> {
        let mut y = x.clone();
        let mut around = x.clone();
        for (i, (conv, norm)) in self.layers.iter().enumerate() {
            y = norm.forward_relu(params, &y, None, pass)?;
            if i == 0 && matches!(self.shortcut, Shortcut::Conv { .. }) {
                around = y.clone();
            }
            y = conv.forward(params, &y)?;
        }
        Ok(self.shortcut.forward(params, &around, pass)?.add(&y)?)
    }
}

impl Block {
    /// Its norms, that of the shortcut last.
    pub(super) fn norms(&self) -> impl Iterator<Item = &ChannelNorm> {
        let shortcut = match &self.shortcut {
            Shortcut::Conv { norm, .. } => norm.as_ref(),
            _ => None,
        };
        self.layers.iter().map(|(_, norm)| norm).chain(shortcut)
    }

    /// The same, to be changed.
    pub(super) fn norms_mut(&mut self) -> impl Iterator<Item = &mut ChannelNorm> {
        let shortcut = match &mut self.shortcut {
            Shortcut::Conv { norm, .. } => norm.as_mut(),
            _ => None,
        };
        self.layers.iter_mut().map(|(_, norm)| norm).chain(shortcut)
    }
}

impl Shortcut {
    fn forward(&self, params: &Params, x: &Tensor, pass: &NormPass) -> Result<Tensor> {
        match self {
            Self::Identity => Ok(x.clone()),
            &Self::Zeros { window, stride, before, after } => {
                let x = x.avg_pool(window, stride)?;
                let [b, _, h, w] = x.dims4("shortcut")?;
                let zeros = |channels| Tensor::zeros([b, channels, h, w], x.device());
                let (before, after) = (zeros(before)?, zeros(after)?);
                Ok(Tensor::concat(&[&before, &x, &after], 1)?)
            }
            Self::Conv { conv, norm } => {
                let y = conv.forward(params, x)?;
                norm.as_ref().map_or(Ok(y.clone()), |norm| norm.forward(params, &y, pass))
            }
        }
    }
}
