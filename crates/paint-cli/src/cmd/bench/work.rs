//! The arithmetic of one adaptation step, to say how near it comes to the machine's own limit.

use anyhow::Result;
use paint_nn::backbone::Backbone;

/// The sizes of a ViT that decide its arithmetic.
pub(super) struct Work {
    embed_dim: usize,
    depth: usize,
    hidden: usize,
    /// Class token and patches.
    tokens: usize,
}

impl Work {
    /// Read off a model's parameters.
    pub(super) fn of(model: &dyn Backbone) -> Result<Self> {
        let shape = |name: &str| -> Result<Vec<usize>> {
            let params = model.params();
            Ok(params[params.id(name)?].shape().to_vec())
        };
        Ok(Self {
            embed_dim: model.spec().feature_dim,
            depth: model.spec().depth,
            hidden: shape("blocks.0.mlp.fc1.weight")?[0],
            tokens: shape("pos_embed")?[1],
        })
    }
}

/// Floating-point operations of the matrix products of one step: query, prompted, mixed and final forward, and the
/// backward pass of the prompted and the mixed forward into the prompt and `trained` blocks.
pub(super) fn step_flops(work: &Work, batch: usize, prompts: usize, trained: usize) -> f64 {
    let [b, d, blocks, hidden] = [batch, work.embed_dim, work.depth, work.hidden].map(|x| x as f64);
    let [plain, prompted] = [work.tokens, work.tokens + prompts].map(|x| x as f64);
    let token = 2.0 * (4.0 * d * d + 2.0 * d * hidden);
    // Keys and values of every token, everything else for the pooled token.
    let last = |n: f64| b * (n * 4.0 * d * d + (token - 4.0 * d * d) + 4.0 * n * d);
    let attention = |n: f64| 4.0 * n * n * d;
    let forward = |n: f64| (blocks - 1.0) * b * (n * token + attention(n)) + last(n);
    // One product for each input gradient, five for the two of attention (the scores are computed again).
    let inputs =
        (blocks - 1.0) * b * (prompted * token + 2.5 * attention(prompted)) + last(prompted);
    let weights = trained as f64 * b * prompted * token;
    forward(plain) + 3.0 * forward(prompted) + 2.0 * (inputs + weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_model_needs_about_the_published_arithmetic() {
        // ViT-B/16 at 224 is listed with 17.6 G multiply-adds a forward; six and a half forwards make a step.
        let flops =
            step_flops(&Work { embed_dim: 768, depth: 12, hidden: 3072, tokens: 197 }, 1, 2, 3);
        assert!((2.0 * 17.6e9 * 5.5..2.0 * 17.6e9 * 7.0).contains(&flops), "{flops}");
    }
}
