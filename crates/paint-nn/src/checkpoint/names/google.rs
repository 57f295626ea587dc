//! Google's JAX checkpoints: `vision_transformer` and `big_vision`, which number the parts of a block
//! differently.
//!
//! A kernel is `[in, out]` and attention keeps its heads apart: query, key and value are `[D, h, D/h]` with a bias
//! `[h, D/h]`, the output is `[h, D/h, D]`; the patch embedding is `[patch, patch, 3, D]`.

use super::{Array, Placed, block, replaced};
use paint_files::Fault;

const STEM: [(&str, &str); 6] = [
    ("cls", "cls_token"),
    ("Transformer/posembed_input/pos_embedding", "pos_embed"),
    ("embedding", "patch_embed.proj"),
    ("Transformer/encoder_norm", "norm"),
    ("pre_logits", "pre_logits.fc"),
    ("head", "head"),
];

const BLOCK: [(&str, &str); 9] = [
    ("LayerNorm_0", "norm1"),
    ("MultiHeadDotProductAttention_1/out", "attn.proj"),
    ("LayerNorm_2", "norm2"),
    ("MlpBlock_3/Dense_0", "mlp.fc1"),
    ("MlpBlock_3/Dense_1", "mlp.fc2"),
    ("MultiHeadDotProductAttention_0/out", "attn.proj"),
    ("LayerNorm_1", "norm2"),
    ("MlpBlock_0/Dense_0", "mlp.fc1"),
    ("MlpBlock_0/Dense_1", "mlp.fc2"),
];

const THIRDS: [&str; 3] = ["query/", "key/", "value/"];

pub(super) fn place(name: &str, array: Array) -> Result<Placed, Fault> {
    let placed = |timm: String| -> Result<Placed, Fault> {
        Ok(match timm.rsplit_once('.') {
            Some((path, "kernel")) => Placed::whole(format!("{path}.weight"), kernel(&array)?),
            Some((path, "scale")) => Placed::whole(format!("{path}.weight"), array.clone()),
            _ => Placed::whole(timm, array.clone()),
        })
    };
    if let Some(timm) = replaced(name, '/', &STEM) {
        return placed(timm);
    }
    let Some((index, rest)) =
        name.strip_prefix("Transformer/encoderblock_").and_then(|rest| block(rest, '/'))
    else {
        return Ok(Placed::whole(name, array));
    };
    let attention = ["MultiHeadDotProductAttention_1/", "MultiHeadDotProductAttention_0/"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix));
    for (third, prefix) in THIRDS.iter().enumerate() {
        if let Some(leaf) = attention.and_then(|rest| rest.strip_prefix(prefix)) {
            return head_part(index, third, leaf, &array);
        }
    }
    match replaced(rest, '/', &BLOCK) {
        Some(timm) => placed(format!("blocks.{index}.{timm}")),
        None => Ok(Placed::whole(name, array)),
    }
}

/// A kernel outside query, key and value, with its output axis first.
fn kernel(array: &Array) -> Result<Array, Fault> {
    match array.shape[..] {
        [_, _] => Ok(array.transposed(&[1, 0])),
        [heads, width, d] => {
            let turned = array.transposed(&[2, 0, 1]);
            Ok(Array { shape: vec![d, heads * width], ..turned })
        }
        [_, _, _, _] => Ok(array.transposed(&[3, 2, 0, 1])),
        _ => Err(Fault::invalid("kernel", "2, 3 or 4 axes", format!("{:?}", array.shape))),
    }
}

/// Query, key or value of one block, heads joined.
fn head_part(index: usize, third: usize, leaf: &str, array: &Array) -> Result<Placed, Fault> {
    let (leaf, heads, array) = match (leaf, &array.shape[..]) {
        ("kernel", &[d, heads, width]) => {
            let joined = Array { shape: vec![d, heads * width], ..array.clone() };
            ("weight", heads, joined.transposed(&[1, 0]))
        }
        ("bias", &[heads, width]) => {
            ("bias", heads, Array { shape: vec![heads * width], ..array.clone() })
        }
        (leaf, shape) => {
            let expected = "a kernel [D, h, D/h] or a bias [h, D/h]";
            return Err(Fault::invalid("attention", expected, format!("{leaf} {shape:?}")));
        }
    };
    let name = format!("blocks.{index}.attn.qkv.{leaf}");
    Ok(Placed { part: Some((third, 3)), num_heads: Some(heads), ..Placed::whole(name, array) })
}
