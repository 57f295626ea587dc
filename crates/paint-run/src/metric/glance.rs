//! What a probe sees.

use serde::{Deserialize, Serialize};

/// What was seen after one visit, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Glance {
    /// The visit it followed, counted from 0.
    pub after: usize,
    /// The accuracy on clean source images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<f64>,
    /// The same with a prompt that was learnt from clean images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt: Option<f64>,
    /// The accuracy on all domains visited so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<f64>,
}
