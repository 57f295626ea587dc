//! The constants of a prompt memory, the paper's by default.

/// When the reliability is low enough for a new prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threshold {
    /// `r_s < η` (Eq. 5).
    #[default]
    Below,
    /// `r_s ≤ η` (released code).
    AtOrBelow,
}

/// What `η` is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// A cosine (Eq. 5).
    #[default]
    Absolute,
    /// The distance that chance gives a batch of the key's own domain: 1/5 allows four standard deviations (ours,
    /// `prompt/distance.rs`). One or two images tell too little to be the first of a new prompt while there is another.
    Relative,
}

/// What the sum of similarities is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reliability {
    /// The number of queries (Eq. 4).
    #[default]
    OverQueries,
    /// The number of images of the forward pass (released code).
    OverImages,
}

/// The constants of a [`PromptMemory`](super::PromptMemory).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptConfig {
    /// `L_p`, the number of tokens of a prompt.
    pub length: usize,
    /// `D_e`, the width of a token.
    pub width: usize,
    /// `η`; depends on the model.
    pub eta: f32,
    /// What it is measured in.
    pub scale: Scale,
    /// Whether `r_s = η` allocates.
    pub threshold: Threshold,
    /// The denominator of `r_s`.
    pub reliability: Reliability,
    /// `γ`.
    pub gamma: f32,
    /// The largest number of prompts, at least 2; none for the paper's unbounded memory.
    pub capacity: Option<usize>,
}

impl PromptConfig {
    /// The paper's constants for prompts of `length` tokens of width `width`.
    pub fn paper(length: usize, width: usize) -> Self {
        let (threshold, reliability) = (Threshold::default(), Reliability::default());
        Self {
            length,
            width,
            eta: 0.2,
            scale: Scale::default(),
            threshold,
            reliability,
            gamma: 0.8,
            capacity: None,
        }
    }
}
