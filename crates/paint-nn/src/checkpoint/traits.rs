//! What the arrays of a vision transformer do not show: two networks with the same arrays may differ in it.

use std::collections::BTreeMap;

use paint_settings::choice;

use super::Checkpoint;
use super::model_config::ModelConfig;

choice! {
    /// The activation inside an MLP.
    pub enum Activation {
        /// `x Φ(x)`
        Gelu = "gelu",
        /// Its tanh form (SigLIP)
        GeluTanh = "gelu_tanh",
        /// `x σ(1.702 x)` (CLIP of OpenAI)
        QuickGelu = "quick_gelu",
        /// `x σ(x)`, the gate of SwiGLU
        Silu = "silu",
    }
}

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 4] = [Self::Gelu, Self::GeluTanh, Self::QuickGelu, Self::Silu];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::QuickGelu => "quick_gelu",
            Self::Silu => "silu",
        }
    }

    /// The activation of that name, as timm, Hugging Face and this program spell it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Some(Self::GeluTanh),
            "quickgelu" => Some(Self::QuickGelu),
            "swish" => Some(Self::Silu),
            name => Self::ALL.into_iter().find(|activation| activation.name() == name),
        }
    }
}

choice! {
    /// What the classifier of a vision transformer reads.
    pub enum GlobalPool {
        /// The class token
        Token = "token",
        /// The mean of the patches, normed before or after
        Avg = "avg",
        /// The mean of the patches as the last block gives them (Hugging Face's CLIP)
        AvgRaw = "avg_raw",
        /// The class token and the mean of the patches, one after the other (Hugging Face's DINOv2)
        TokenAvg = "token_avg",
        /// What a learnt query attends to (SigLIP)
        Map = "map",
    }
}

impl GlobalPool {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Token, Self::Avg, Self::AvgRaw, Self::TokenAvg, Self::Map];

    /// Its name in configurations; timm's where timm has one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Avg => "avg",
            Self::AvgRaw => "avg_raw",
            Self::TokenAvg => "token_avg",
            Self::Map => "map",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pool| pool.name() == name)
    }
}

/// What is known beside the arrays; what is not follows from the parts that the arrays show.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traits {
    /// The epsilon of layer norms.
    pub layer_norm_eps: Option<f32>,
    /// The activation inside MLPs.
    pub activation: Option<Activation>,
    /// What the classifier reads.
    pub global_pool: Option<GlobalPool>,
}

/// Where [`to_timm`](super::to_timm) leaves what a publisher's own code does, in the metadata.
const LAYER_NORM_EPS: &str = "layer_norm_eps";
const ACTIVATION: &str = "activation";
const GLOBAL_POOL: &str = "global_pool";

impl Traits {
    /// What the files beside the weights say, and for the rest what the publisher's own code does.
    pub fn of(weights: &Checkpoint, beside: &ModelConfig) -> Self {
        let said = |key: &str| weights.metadata.get(key).map(String::as_str);
        let eps = || said(LAYER_NORM_EPS)?.parse().ok().filter(|eps| *eps > 0.0);
        let activation = || Activation::from_name(said(ACTIVATION)?);
        let pool = || GlobalPool::from_name(said(GLOBAL_POOL)?);
        Self {
            layer_norm_eps: beside.layer_norm_eps.or_else(eps),
            activation: beside.activation.or_else(activation),
            // The publisher's classifier decides; a configuration has this word for other things too.
            global_pool: pool().or(beside.global_pool),
        }
    }

    /// Leaves these in the metadata of weights, where [`Traits::of`] finds them.
    pub(crate) fn note(self, metadata: &mut BTreeMap<String, String>) {
        let rows = [
            (LAYER_NORM_EPS, self.layer_norm_eps.map(|eps| eps.to_string())),
            (ACTIVATION, self.activation.map(|activation| activation.name().to_owned())),
            (GLOBAL_POOL, self.global_pool.map(|pool| pool.name().to_owned())),
        ];
        for (key, value) in rows {
            if let Some(value) = value {
                metadata.insert(key.to_owned(), value);
            }
        }
    }

    /// These, and where they say nothing `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            layer_norm_eps: self.layer_norm_eps.or(other.layer_norm_eps),
            activation: self.activation.or(other.activation),
            global_pool: self.global_pool.or(other.global_pool),
        }
    }
}
