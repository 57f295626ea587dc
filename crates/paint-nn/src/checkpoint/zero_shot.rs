//! A zero-shot classifier: text features, one row per class, in place of a trained head.
//!
//! The logit of a class is `s cos(x, t_c)`, where `x` is the projected feature of the image, `t_c` the feature of
//! the class's text and `s` the scale of the weights (`exp(logit_scale)`, 100 if they have none). A constant that is
//! added to all logits, as SigLIP has one, changes no prediction and is left out.

use paint_files::{Dtype, Fault};

use super::array::Array;
use super::error::{Error, Result};
use super::{Checkpoint, Convention};

/// Metadata of weights whose head compares directions.
pub(crate) const COSINE_HEAD: &str = "cosine_head";

const SCALE: f32 = 100.0;

/// `weights`, with timm's names, and a head of `text` `[C, E]`: `head.weight` are its rows, of length `s`. A projection
/// that timm keeps as the head becomes `head.proj`.
pub fn with_text_features(mut weights: Checkpoint, text: &Array) -> Result<Checkpoint> {
    let convention = Convention::Timm;
    let names = |fault| Error::Names { convention, fault };
    let &[classes, width] = text.shape.as_slice() else {
        let found = format!("{:?}", text.shape);
        return Err(names(Fault::invalid("text features", "one row per class, [C, E]", found)));
    };
    let stored = weights.remove("head.logit_scale").and_then(|scale| scale.data.first().copied());
    let scale = stored.map_or(SCALE, f32::exp);
    take_projection(&mut weights, width).map_err(names)?;
    let expected = match weights.get("head.proj.weight").map(|array| array.shape.as_slice()) {
        Some(&[out, _]) => Some(out),
        _ => weights.get("pos_embed").and_then(|array| array.shape.last().copied()),
    };
    if expected != Some(width) {
        let expected =
            format!("rows of {} numbers, as the image tower gives", expected.unwrap_or(0));
        return Err(names(Fault::invalid("text features", expected, width)));
    }
    let mut data = Vec::with_capacity(text.data.len());
    for row in text.data.chunks(width.max(1)) {
        let length = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return Err(names(Fault::invalid(
                "text features",
                "rows with a direction",
                "a row of length 0",
            )));
        }
        data.extend(row.iter().map(|x| (f64::from(*x) / length) as f32 * scale));
    }
    let array = |shape, data| Array { shape, dtype: Dtype::F32, data };
    weights.insert("head.weight".into(), array(vec![classes, width], data)).map_err(names)?;
    weights.insert("head.bias".into(), array(vec![classes], vec![0.0; classes])).map_err(names)?;
    weights.metadata.insert(COSINE_HEAD.to_owned(), String::new());
    Ok(weights)
}

/// Makes room for the head: one that has as many rows as text features are wide is the projection, any other is
/// refused.
fn take_projection(weights: &mut Checkpoint, width: usize) -> std::result::Result<(), Fault> {
    let bias = weights.remove("head.bias");
    let Some(head) = weights.remove("head.weight") else { return Ok(()) };
    let adds = bias.is_some_and(|bias| bias.data.iter().any(|x| *x != 0.0));
    if head.shape.first() != Some(&width) || adds || weights.get("head.proj.weight").is_some() {
        let found = format!("a classifier {:?}", head.shape);
        return Err(Fault::invalid(
            "weights for text features",
            "an image tower without a classifier",
            found,
        ));
    }
    weights.insert("head.proj.weight".into(), head)
}
