//! The module that a node comes from, and which names are those of parameters.

use super::proto::Node;

/// Parameters of known networks that belong to no module.
const OF_NO_MODULE: [&str; 12] = [
    "class_embedding",
    "class_token",
    "cls_token",
    "dist_token",
    "logit_scale",
    "mask_token",
    "pos_embed",
    "positional_embedding",
    "proj",
    "reg_token",
    "register_tokens",
    "storage_tokens",
];

/// Whether PyTorch would give a parameter or buffer this name. Exporters call what they make themselves
/// `onnx::MatMul_214`, `/blocks.0/Constant_output_0`, `val_12`, `expand` or `214`.
pub(super) fn is_parameter(name: &str) -> bool {
    let made_up = name.contains(['/', ':']) || is_folded_bias(name);
    match name.rsplit_once('.') {
        _ if made_up => false,
        None => OF_NO_MODULE.contains(&name),
        Some((module, leaf)) => {
            !module.is_empty() && !leaf.is_empty() && !leaf.bytes().all(|b| b.is_ascii_digit())
        }
    }
}

/// What the newer exporter calls the bias of a convolution that a batch norm went into.
pub(super) fn is_folded_bias(name: &str) -> bool {
    name.ends_with(".weight_bias")
}

/// The path of the module whose code made a node, empty for the whole network; none if the file does not say.
pub(super) fn module_of(node: &Node) -> Option<String> {
    match &node.scopes {
        Some(scopes) => of_scopes(scopes),
        None => of_name(&node.name),
    }
}

/// `['', 'blocks', 'blocks.0', 'blocks.0.mlp.fc1', 'linear_2']`: the last is the operation.
fn of_scopes(scopes: &str) -> Option<String> {
    let (modules, _) = scopes.strip_prefix('[')?.strip_suffix(']')?.rsplit_once(", ")?;
    let module = modules.rsplit_once(", ").map_or(modules, |(_, module)| module);
    Some(module.strip_prefix('\'')?.strip_suffix('\'')?.to_owned())
}

/// `/blocks/blocks.0/mlp/fc1/MatMul`: a module in a list repeats the name of the list.
fn of_name(name: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    let (modules, _) = name.strip_prefix('/')?.rsplit_once('/').unwrap_or_default();
    for part in modules.split('/').filter(|part| !part.is_empty()) {
        let of_list =
            |list: &&str| part.strip_prefix(list).is_some_and(|rest| rest.starts_with('.'));
        if parts.last().is_some_and(of_list) {
            parts.pop();
        }
        parts.push(part);
    }
    Some(parts.join("."))
}

/// A name inside a module.
pub(super) fn inside(module: &str, leaf: &str) -> String {
    if module.is_empty() { leaf.to_owned() } else { format!("{module}.{leaf}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read_off_the_scopes_of_both_exporters() {
        for (name, module) in [
            ("/blocks/blocks.0/attn/qkv/MatMul", "blocks.0.attn.qkv"),
            ("/stages/stages.1/blocks/blocks.0/Mul", "stages.1.blocks.0"),
            ("/vit/layers.0/attention/q_proj/MatMul", "vit.layers.0.attention.q_proj"),
            (
                "/vit/encoder/layer.0/attention/attention/query/MatMul_1",
                "vit.encoder.layer.0.attention.attention.query",
            ),
            ("/Add", ""),
        ] {
            assert_eq!(of_name(name).as_deref(), Some(module), "{name}");
        }
        assert_eq!(of_name("MatMul_12"), None);
        let scopes = "['', 'blocks', 'blocks.0', 'blocks.0.attn', 'blocks.0.attn.qkv', 'linear']";
        assert_eq!(of_scopes(scopes).as_deref(), Some("blocks.0.attn.qkv"));
        assert_eq!(of_scopes("['', 'cat']").as_deref(), Some(""));
        assert_eq!(of_scopes("['cat']"), None);
        assert_eq!(of_scopes("nonsense"), None);
    }

    #[test]
    fn names_of_parameters_are_told_from_those_of_exporters() {
        for name in ["cls_token", "blocks.0.norm1.weight", "conv1.weight", "bn1.running_mean"] {
            assert!(is_parameter(name), "{name}");
        }
        for name in [
            "onnx::MatMul_214",
            "val_12",
            "expand",
            "1234",
            "input.1",
            "/blocks/blocks.0/Constant_output_0",
            "conv1.weight_bias",
            "",
            ".",
        ] {
            assert!(!is_parameter(name), "{name}");
        }
    }
}
