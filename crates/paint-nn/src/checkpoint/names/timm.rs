//! timm's own names, and those that older files and the authors' own code have in their place: `gamma_1` of DeiT III,
//! `register_tokens` and `mlp.w12` of DINOv2. In its smaller kinds of ConvNeXt the MLPs are
//! convolutions of single pixels.

use super::{Array, Placed, block, swin};

pub(super) fn place(name: &str, array: Array) -> Placed {
    match name {
        "register_tokens" => return Placed::whole("reg_token", array),
        "mask_token" => return Placed::dropped(name, "a token that only training uses"),
        _ => {}
    }
    if let Some(why) = swin::unneeded(name) {
        return Placed::dropped(name, why);
    }
    if name.starts_with("stages.")
        && name.contains(".mlp.fc")
        && let &[outputs, inputs, 1, 1] = &array.shape[..]
    {
        return Placed::whole(name, Array { shape: vec![outputs, inputs], ..array });
    }
    let renamed = name.strip_prefix("blocks.").and_then(|rest| {
        let (index, rest) = block(rest, '.')?;
        let rest = match rest {
            "gamma_1" => "ls1.gamma",
            "gamma_2" => "ls2.gamma",
            "mlp.w12.weight" => "mlp.fc1.weight",
            "mlp.w12.bias" => "mlp.fc1.bias",
            "mlp.w3.weight" => "mlp.fc2.weight",
            "mlp.w3.bias" => "mlp.fc2.bias",
            _ => return None,
        };
        Some(format!("blocks.{index}.{rest}"))
    });
    Placed::whole(renamed.as_deref().unwrap_or(name), array)
}
