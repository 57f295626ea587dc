//! Graphs of both exporters give the network that they were made from.

use paint_nn::backbone::convnext::ConvnextConfig;
use paint_nn::backbone::resnet::{BlockKind, ResnetConfig};
use paint_nn::backbone::vit::{Vit, VitConfig};
use paint_nn::backbone::{Backbone, BuildOptions, Request, Weights};
use paint_nn::checkpoint::{self, Activation, Checkpoint, Format, ModelConfig, Preprocess, Traits};
use paint_tensor::{Device, Tensor};

use super::{fixture, read, refusal};

const VITS: [&str; 4] = ["timm_vit", "huggingface_vit", "torchvision_vit", "shared"];
const EXPORTERS: [&str; 2] = ["torchscript", "dynamo"];

/// The `config.json` of a golden file, read as one beside weights is.
fn beside(golden: &Checkpoint) -> ModelConfig {
    let about: serde_json::Value = serde_json::from_str(&golden.metadata["about"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), about["config"].to_string()).unwrap();
    checkpoint::read_model_config(folder.path().join("model.onnx")).unwrap()
}

fn network(case: &str, weights: Checkpoint, golden: &Checkpoint) -> Box<dyn Backbone> {
    let [_, _, height, width] = *golden.get("images").unwrap().shape else { panic!("{case}") };
    let beside = beside(golden);
    let options = BuildOptions {
        preprocess: Some(Preprocess {
            mean: [0.5; 3],
            std: [0.5; 3],
            ..Preprocess::usual([height, width])
        }),
        traits: Traits::of(&weights, &beside),
        ..BuildOptions::new(&Device::cpu())
    };
    let depth = weights.iter().filter(|(name, _)| name.ends_with("norm1.weight")).count();
    let weights = Weights::Checkpoint(weights);
    match case {
        "timm_convnext" => {
            let config =
                ConvnextConfig { depths: [1, 2, 1, 1], dims: [4, 6, 8, 10], num_classes: 5 };
            Box::new(config.build(case, weights, &options).unwrap())
        }
        "resnet" => {
            let config =
                ResnetConfig { blocks: [1; 4], block: BlockKind::Basic, width: 2, num_classes: 1 };
            Box::new(config.build(case, weights, &options).unwrap())
        }
        _ => {
            let config = VitConfig {
                image_size: [height, width],
                patch_size: 4,
                embed_dim: 16,
                depth,
                num_heads: 2,
                mlp_ratio: 2.0,
                ..VitConfig::tiny_patch4_32()
            };
            Box::new(Vit::build(case, config, weights, &options).unwrap())
        }
    }
}

#[test]
fn logits_are_pytorchs_whichever_exporter_wrote_the_graph() {
    for case in VITS.iter().chain(&["timm_convnext", "resnet"]) {
        let golden = read(&format!("{case}.safetensors"));
        for exporter in EXPORTERS {
            let found = read(&format!("{case}_{exporter}.onnx"));
            assert_eq!(found.format, Format::Onnx);
            let (_, weights) = checkpoint::to_timm(found).unwrap();
            let images = golden.get("images").unwrap();
            let images = Tensor::from_vec(images.data.clone(), &images.shape, &Device::cpu());
            let network = network(case, weights, &golden);
            let logits = network.forward(&images.unwrap(), &Request::default()).unwrap().logits;
            let (logits, expected) =
                (logits.to_vec().unwrap(), &golden.get("logits").unwrap().data);
            assert_eq!(logits.len(), expected.len());
            let largest = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            let difference = logits.iter().zip(expected).map(|(got, x)| (got - x).abs());
            let relative = difference.fold(0.0, f32::max) / largest;
            // 5e-6: measured 2.7e-7 (timm's ViT).
            assert!(relative < 5e-6, "{case} {exporter}: {relative}");
        }
    }
}

#[test]
fn both_exporters_give_the_same_arrays() {
    for case in VITS.iter().chain(&["timm_convnext", "resnet"]) {
        let [one, other] = EXPORTERS.map(|exporter| read(&format!("{case}_{exporter}.onnx")));
        assert_eq!(one.len(), other.len(), "{case}");
        for (name, array) in one.iter() {
            assert_eq!(Some(array), other.get(name), "{case}: {name}");
        }
    }
}

#[test]
fn a_graph_says_its_epsilon_and_activation() {
    let (_, weights) = checkpoint::to_timm(read("timm_vit_dynamo.onnx")).unwrap();
    let traits = Traits::of(&weights, &ModelConfig::default());
    assert_eq!(traits.layer_norm_eps, Some(1e-3));
    assert_eq!(traits.activation, Some(Activation::Gelu));
    assert_eq!(weights.metadata["producer"].split(' ').next(), Some("pytorch"));
}

#[test]
fn folded_batch_norms_and_preprocessing_in_the_graph_are_refused_with_the_way_out() {
    for (name, words) in [
        ("folded_torchscript.onnx", "do_constant_folding=False"),
        ("folded_dynamo.onnx", "optimize=False"),
        ("scaled.onnx", "preprocessing belongs beside the weights"),
    ] {
        let error = refusal(name);
        assert!(error.contains(words) && error.contains("safetensors.torch.save_file"), "{error}");
    }
}

#[test]
fn every_number_type_is_read_from_every_field() {
    let found = read("numbers.onnx");
    let tensors = checkpoint::read(fixture("../checkpoints/tensors.safetensors")).unwrap();
    let mut compared = 0;
    for (name, array) in found.iter() {
        let (place, name) = name.split_once('.').unwrap();
        let expected = match name {
            "uint16" | "uint32" | "uint64" => vec![0.0, 3.0, 40000.0],
            _ => tensors.get(name).unwrap().data.clone(),
        };
        assert_eq!(array.data, expected, "{place} {name}");
        compared += 1;
    }
    assert_eq!(compared, 29);
}
