//! Weights without a name are found by bias, module and node, or the file is refused.

use std::path::Path;

use paint_nn::checkpoint::{self, Checkpoint};

use super::protobuf::{bytes, int, model, node, tensor};

const WEIGHT: [f32; 6] = [1., 2., 3., 4., 5., 6.];
const TURNED: [f32; 6] = [1., 4., 2., 5., 3., 6.];

/// A field with an attribute that is a whole number, or several.
fn attribute(name: &str, numbers: &[i64]) -> Vec<u8> {
    let numbers: Vec<u8> = match numbers {
        [number] => int(3, *number),
        all => all.iter().flat_map(|&number| int(8, number)).collect(),
    };
    bytes(5, [bytes(1, name), numbers].concat())
}

/// A field with the modules that a node comes from.
fn scopes(modules: &str) -> Vec<u8> {
    bytes(9, [bytes(1, "pkg.torch.onnx.name_scopes"), bytes(2, modules)].concat())
}

fn decode(nodes: &[Vec<u8>], tensors: &[Vec<u8>]) -> Result<Checkpoint, String> {
    checkpoint::decode(&model(nodes, tensors), Path::new("some.onnx")).map_err(|e| e.to_string())
}

/// A weight of two inputs and three outputs as a graph has it, and a bias.
fn tensors(weight: &str, bias: &str) -> [Vec<u8>; 2] {
    [tensor(weight, &[2, 3], &WEIGHT), tensor(bias, &[3], &[7., 8., 9.])]
}

fn weight(checkpoint: &Checkpoint, name: &str) -> (Vec<usize>, Vec<f32>) {
    let array = checkpoint.get(name).unwrap_or_else(|| panic!("no {name} in {checkpoint:?}"));
    (array.shape.clone(), array.data.clone())
}

fn assert_turned(checkpoint: &Checkpoint, name: &str) {
    assert_eq!(weight(checkpoint, name), (vec![3, 2], TURNED.to_vec()), "{name}");
}

#[test]
fn a_bias_names_the_weight_in_either_order() {
    for inputs in [["y", "a.fc.bias"], ["a.fc.bias", "y"]] {
        let nodes = [
            node("MatMul", "MatMul_1", &["x", "onnx::MatMul_5"], "y", &[]),
            node("Add", "Add_2", &inputs, "z", &[]),
        ];
        let found = decode(&nodes, &tensors("onnx::MatMul_5", "a.fc.bias")).unwrap();
        assert_turned(&found, "a.fc.weight");
        assert_eq!(found.len(), 2);
    }
    let nodes = [
        node("MatMul", "/a/self_attention/MatMul", &["x", "val_5"], "y", &[]),
        node("Add", "/a/self_attention/Add", &["y", "a.self_attention.in_proj_bias"], "z", &[]),
    ];
    let found = decode(&nodes, &tensors("val_5", "a.self_attention.in_proj_bias")).unwrap();
    assert_turned(&found, "a.self_attention.in_proj_weight");
}

#[test]
fn without_a_bias_the_module_names_the_weight() {
    let only = [tensor("val_12", &[2, 3], &WEIGHT)];
    let scopes =
        scopes("['', 'blocks', 'blocks.0', 'blocks.0.attn', 'blocks.0.attn.qkv', 'linear']");
    for node in [
        node("MatMul", "/blocks/blocks.0/attn/qkv/MatMul", &["x", "val_12"], "y", &[]),
        node("MatMul", "node_linear", &["x", "val_12"], "y", &scopes),
    ] {
        assert_turned(&decode(&[node], &only).unwrap(), "blocks.0.attn.qkv.weight");
    }
    let error =
        decode(&[node("MatMul", "MatMul_1", &["x", "val_12"], "y", &[])], &only).unwrap_err();
    assert!(error.contains("val_12") && error.contains("save_file"), "{error}");
}

#[test]
fn a_bias_of_another_module_stands_for_an_equal_one() {
    let scope = scopes("['', 'a', 'a.fc', 'linear']");
    let nodes = [
        node("MatMul", "m", &["x", "val_1"], "y", &scope),
        node("Add", "n", &["y", "a.norm.bias"], "z", &scope),
        node(
            "LayerNormalization",
            "l",
            &["z", "a.norm.weight", "a.norm.bias"],
            "u",
            &scopes("['', 'b', 'layer_norm']"),
        ),
    ];
    let mut tensors = tensors("val_1", "a.norm.bias").to_vec();
    tensors.push(tensor("a.norm.weight", &[3], &[1., 2., 4.]));
    let found = decode(&nodes, &tensors).unwrap();
    assert_turned(&found, "a.fc.weight");
    assert_eq!(found.get("a.fc.bias"), found.get("a.norm.bias"));
    assert_eq!(found.get("b.weight"), found.get("a.norm.weight"));
    assert_eq!(found.len(), 6);
}

#[test]
fn gemm_turns_a_weight_as_its_attribute_says() {
    let gemm = |more: &[u8]| [node("Gemm", "g", &["x", "val_1", "head.bias"], "y", more)];
    let found = decode(&gemm(&[]), &tensors("val_1", "head.bias")).unwrap();
    assert_turned(&found, "head.weight");
    let stored = [tensor("val_1", &[3, 2], &TURNED), tensor("head.bias", &[3], &[7., 8., 9.])];
    assert_turned(&decode(&gemm(&attribute("transB", &[1])), &stored).unwrap(), "head.weight");
    let halved = bytes(5, [bytes(1, "alpha"), vec![0x15, 0, 0, 0, 0x3f]].concat());
    let error = decode(&gemm(&halved), &tensors("val_1", "head.bias")).unwrap_err();
    assert!(error.contains("val_1"), "{error}");
}

#[test]
fn constants_pass_through_identity_cast_and_transpose() {
    let value = bytes(5, [bytes(1, "value"), bytes(5, tensor("", &[3, 2], &TURNED))].concat());
    let nodes = [
        node("Constant", "c", &[], "k", &value),
        node("Cast", "d", &["k"], "l", &attribute("to", &[1])),
        node("Transpose", "e", &["l"], "m", &attribute("perm", &[1, 0])),
        node("Identity", "f", &["a.norm.bias"], "a.fc.bias", &[]),
        node("MatMul", "g", &["x", "m"], "y", &[]),
        node("Add", "h", &["y", "a.fc.bias"], "z", &[]),
    ];
    let found = decode(&nodes, &[tensor("a.norm.bias", &[3], &[7., 8., 9.])]).unwrap();
    assert_turned(&found, "a.fc.weight");
    assert_eq!(found.get("a.fc.bias"), found.get("a.norm.bias"));
    let unmoved = [
        node("Transpose", "e", &["a.fc.weight"], "m", &attribute("perm", &[0, 1])),
        node("MatMul", "/a/fc/MatMul", &["x", "m"], "y", &[]),
        node("Add", "/a/fc/Add", &["y", "a.fc.bias"], "z", &[]),
    ];
    assert_turned(&decode(&unmoved, &tensors("a.fc.weight", "a.fc.bias")).unwrap(), "a.fc.weight");
}

#[test]
fn what_no_layer_explains_is_refused_unless_it_is_a_plain_number() {
    let refused =
        |name: &str, dims: &[i64], data: &[f32]| decode(&[], &[tensor(name, dims, data)]).err();
    for name in ["val_7", "onnx::Add_12", "1234", "/blocks.0/Constant_output_0"] {
        let error = refused(name, &[2], &[1., 2.]).unwrap();
        assert!(error.contains(name) && error.contains("save_file"), "{error}");
        assert_eq!(refused(name, &[], &[0.125]), None);
        assert_eq!(refused(name, &[2], &[0., 0.]), None);
        assert_eq!(refused(name, &[2], &[1., 1.]), None);
    }
    let indices = [int(1, 2), int(2, 7), bytes(8, "val_9"), bytes(7, [3, 4])].concat();
    let found = decode(&[], &[indices]).unwrap();
    assert_eq!((found.len(), found.skipped.len()), (0, 1));
}

#[test]
fn a_class_token_is_one_for_all_images() {
    let join = [node("Concat", "/Concat", &["expand", "patches"], "z", &[])];
    let patches = tensor("patch_embed.proj.weight", &[1, 1, 1, 1], &[1.]);
    let token =
        |data: &[f32]| decode(&join, &[patches.clone(), tensor("expand", &[2, 1, 2], data)]);
    let found = token(&[3., 4., 3., 4.]).unwrap();
    assert_eq!(weight(&found, "cls_token"), (vec![1, 1, 2], vec![3., 4.]));
    assert!(token(&[3., 4., 3., 5.]).unwrap_err().contains("one for all images"));
}

#[test]
fn layers_that_disagree_about_a_weight_are_refused() {
    let nodes = [
        node("MatMul", "/a/fc/MatMul", &["x", "val_1"], "y", &[]),
        node("MatMul", "/a/fc/MatMul_1", &["x", "val_2"], "z", &[]),
    ];
    let tensors = [tensor("val_1", &[2, 3], &WEIGHT), tensor("val_2", &[2, 3], &TURNED)];
    assert!(decode(&nodes, &tensors).unwrap_err().contains("appears twice"));
}

#[test]
fn quantised_weights_are_refused() {
    let nodes = [node("DequantizeLinear", "q", &["w", "s"], "y", &[])];
    assert!(decode(&nodes, &[]).unwrap_err().contains("quantised"));
}
