//! Swin under the names of timm, Hugging Face and torchvision: logits and gradients against the publishers' own code
//! (`fixtures/make_swin.py`).

#![expect(clippy::unwrap_used, reason = "a golden file that cannot be read is a failed test")]

use std::path::Path;

use paint_nn::backbone::swin::{Swin, SwinConfig};
use paint_nn::backbone::{Backbone, BuildOptions, Request, Weights};
use paint_nn::checkpoint::{
    self, Architecture, Array, Checkpoint, Convention, ModelConfig, Preprocess, Publisher,
    SwinSizes, Traits,
};
use paint_nn::loss::cross_entropy;
use paint_nn::params::Trainable;
use paint_tensor::{Device, Tensor};

/// Files, the side of their windows, and whose names they have.
const CASES: [(&str, usize, Convention); 4] = [
    ("timm_swin", 4, Convention::Timm),
    ("timm_swin_clipped", 4, Convention::Timm),
    ("huggingface_swin", 2, Convention::Swin(Publisher::HuggingFace)),
    ("torchvision_swin", 4, Convention::Swin(Publisher::Torchvision)),
];

/// A golden file and the network of its arrays.
struct Golden {
    arrays: Checkpoint,
    net: Swin,
}

fn arrays(case: &str) -> Checkpoint {
    let path = format!("../../fixtures/families/{case}.safetensors");
    checkpoint::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The arrays under a prefix, renamed.
fn part(arrays: &Checkpoint, prefix: &str, rename: impl Fn(&str) -> String) -> Checkpoint {
    let mut out = Checkpoint::new(arrays.format);
    for (name, array) in arrays.iter() {
        if let Some(name) = name.strip_prefix(prefix) {
            out.insert(rename(name), array.clone()).unwrap();
        }
    }
    out
}

/// The sizes that the arrays show.
fn detected(weights: &Checkpoint) -> SwinSizes {
    match Architecture::detect(weights, &ModelConfig::default()).unwrap() {
        Architecture::Swin(sizes) => sizes,
        other => panic!("{other:?}"),
    }
}

fn config(sizes: &SwinSizes) -> SwinConfig {
    SwinConfig {
        embed_dim: sizes.embed_dim,
        depths: sizes.depths.clone(),
        num_heads: sizes.num_heads.clone(),
        window_size: sizes.window_size,
        num_classes: sizes.num_classes.unwrap(),
    }
}

fn options(size: [usize; 2], traits: Traits) -> BuildOptions {
    BuildOptions {
        preprocess: Some(Preprocess::usual(size)),
        traits,
        ..BuildOptions::new(&Device::cpu())
    }
}

impl Golden {
    fn read(case: &str) -> Self {
        Self::renamed(case, str::to_owned)
    }

    fn renamed(case: &str, rename: impl Fn(&str) -> String) -> Self {
        let arrays = arrays(case);
        let (_, weights) = checkpoint::to_timm(part(&arrays, "param.", rename)).unwrap();
        let traits = Traits::of(&weights, &ModelConfig::default());
        let &[_, _, height, width] = &arrays.get("images").unwrap().shape[..] else {
            panic!("images have four axes")
        };
        let options = options([height, width], traits);
        let config = config(&detected(&weights));
        let net = config.build("swin", Weights::Checkpoint(weights), &options).unwrap();
        Self { arrays, net }
    }

    fn array(&self, key: &str) -> &Array {
        self.arrays.get(key).unwrap_or_else(|| panic!("the fixture has no {key}"))
    }

    fn images(&self) -> Tensor {
        let array = self.array("images");
        Tensor::from_vec(array.data.clone(), &array.shape, &Device::cpu()).unwrap()
    }

    fn logits(&self) -> Tensor {
        self.net.forward(&self.images(), &Request::default()).unwrap().logits
    }
}

/// The largest difference over the largest expected value.
fn gap(got: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(got.len(), expected.len());
    assert!(got.iter().all(|value| value.is_finite()));
    let largest = |values: &mut dyn Iterator<Item = f32>| values.map(f32::abs).fold(0.0, f32::max);
    let difference = largest(&mut got.iter().zip(expected).map(|(a, b)| a - b));
    difference / largest(&mut expected.iter().copied()).max(1e-30)
}

#[test]
fn logits_are_those_of_the_publishers_code() {
    for (case, ..) in CASES {
        let golden = Golden::read(case);
        let relative = gap(&golden.logits().to_vec().unwrap(), &golden.array("logits").data);
        // 5e-6: measured 3.6e-7.
        assert!(relative < 5e-6, "{case}: {relative}");
    }
}

#[test]
fn every_gradient_is_that_of_the_publishers_code() {
    for (case, ..) in CASES {
        let mut golden = Golden::read(case);
        golden.net.params_mut().track(&Trainable::All);
        let labels: Vec<usize> =
            golden.array("labels").data.iter().map(|&label| label as usize).collect();
        let loss = cross_entropy(&golden.logits(), &labels).unwrap().mean_all().unwrap();
        let gradients = loss.backward().unwrap();
        let expected = part(&golden.arrays, "grad.", str::to_owned);
        let (_, expected) = checkpoint::to_timm(expected).unwrap();
        assert_eq!(expected.len(), golden.net.params().len(), "{case}");
        for param in golden.net.params().iter() {
            let name = param.name();
            let mut got = gradients.get(param.tensor()).unwrap().to_vec().unwrap();
            let mut expected = expected.get(name).unwrap().data.clone();
            if name.ends_with(".attn.qkv.bias") {
                // A constant added to all keys of a window changes nothing: the middle third is rounding alone.
                let third = got.len() / 3;
                let middle = third..2 * third;
                assert!(
                    got[middle.clone()].iter().all(|value| value.abs() < 1e-6),
                    "{case} {name}"
                );
                got.drain(middle.clone());
                expected.drain(middle);
            }
            let relative = gap(&got, &expected);
            // 5e-5: measured 2.3e-6.
            assert!(relative < 5e-5, "{case} {name}: {relative}");
        }
    }
}

#[test]
fn names_and_sizes_are_recognised_and_what_sizes_imply_is_dropped() {
    for (case, window_size, convention) in CASES {
        let weights = part(&arrays(case), "param.", str::to_owned);
        let (found, weights) = checkpoint::to_timm(weights).unwrap();
        assert_eq!(found, convention, "{case}");
        let (depths, num_heads) = (vec![2, 2], vec![2, 4]);
        let sizes =
            SwinSizes { embed_dim: 8, depths, num_heads, window_size, num_classes: Some(5) };
        assert_eq!(detected(&weights), sizes, "{case}");
        assert!(weights.iter().all(|(name, _)| !name.contains("index")), "{case}");
        let dropped = weights.skipped.iter().filter(|(name, _)| name.contains("index")).count();
        assert_eq!(dropped, if case == "torchvision_swin" { 4 } else { 0 }, "{case}");
    }
}

#[test]
fn the_authors_names_lead_to_the_same_network() {
    let authors = |name: &str| {
        name.replace("layers.1.downsample", "layers.0.downsample").replace("head.fc", "head")
    };
    let (old, new) = (Golden::renamed("timm_swin", authors), Golden::read("timm_swin"));
    assert_eq!(old.logits().to_vec().unwrap(), new.logits().to_vec().unwrap());
}

#[test]
fn the_names_of_published_hugging_face_files_lead_to_the_same_network() {
    let published = |name: &str| {
        name.replace("attention.q_proj", "attention.self.query")
            .replace("attention.k_proj", "attention.self.key")
            .replace("attention.v_proj", "attention.self.value")
            .replace("attention.o_proj", "attention.output.dense")
            .replace("attention.relative_position_bias.", "attention.self.")
            .replace("mlp.fc1", "intermediate.dense")
            .replace("mlp.fc2", "output.dense")
    };
    let old = Golden::renamed("huggingface_swin", published);
    let new = Golden::read("huggingface_swin");
    assert_eq!(old.logits().to_vec().unwrap(), new.logits().to_vec().unwrap());
}

#[test]
fn a_branch_that_is_scaled_by_nothing_is_left_out() {
    let golden = Golden::read("timm_swin");
    let ones = Some(Tensor::full([3], 1.0, &Device::cpu()).unwrap());
    let zeros = Some(Tensor::zeros([3], &Device::cpu()).unwrap());
    let with = |branches: &[Option<Tensor>]| {
        let request = Request { branches, ..Request::default() };
        golden.net.forward(&golden.images(), &request).unwrap().logits.to_vec().unwrap()
    };
    let plain = golden.logits().to_vec().unwrap();
    // 1e-6: the sum is rounded once more.
    assert!(gap(&with(&vec![ones.clone(); 8]), &plain) < 1e-6);
    let mut last = vec![ones; 8];
    last[6] = zeros;
    assert!(gap(&with(&last), &plain) > 1e-3);
}

#[test]
fn an_image_size_that_changes_the_windows_is_refused_and_a_larger_one_is_padded() {
    let (_, weights) =
        checkpoint::to_timm(part(&arrays("timm_swin"), "param.", str::to_owned)).unwrap();
    let sizes = config(&detected(&weights));
    let build = |size| {
        let weights = Weights::Checkpoint(weights.clone());
        sizes.clone().build("swin", weights, &options(size, Traits::default()))
    };
    let net = build([52, 68]).unwrap();
    let images = Tensor::full([1, 3, 52, 68], 0.3, &Device::cpu()).unwrap();
    let logits = net.forward(&images, &Request::default()).unwrap().logits.to_vec().unwrap();
    assert!(logits.iter().all(|logit| logit.is_finite()));
    let error = build([24, 32]).unwrap_err().to_string();
    for word in ["layers.1.blocks.0", "49 relative positions", "windows of 3x4", "24x32"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    let error = build([4, 64]).unwrap_err().to_string();
    assert!(error.contains("at least 8x8"), "{error}");
}

#[test]
fn sizes_that_no_network_can_have_are_refused() {
    let good = SwinConfig {
        embed_dim: 8,
        depths: vec![1, 1],
        num_heads: vec![2, 4],
        window_size: 4,
        num_classes: 3,
    };
    let error = |config: SwinConfig| {
        let weights = Weights::Random(paint_rng::Seed(0));
        config
            .build("swin", weights, &options([32, 32], Traits::default()))
            .unwrap_err()
            .to_string()
    };
    for (config, word) in [
        (SwinConfig { depths: vec![], ..good.clone() }, "depths"),
        (SwinConfig { depths: vec![1, 0], ..good.clone() }, "depths"),
        (SwinConfig { depths: vec![1; 99], ..good.clone() }, "depths"),
        (SwinConfig { embed_dim: 0, ..good.clone() }, "embed_dim"),
        (SwinConfig { embed_dim: usize::MAX, ..good.clone() }, "embed_dim"),
        (SwinConfig { num_heads: vec![2], ..good.clone() }, "num_heads"),
        (SwinConfig { num_heads: vec![2, 0], ..good.clone() }, "num_heads"),
        (SwinConfig { num_heads: vec![3, 4], ..good.clone() }, "num_heads"),
        (SwinConfig { window_size: 0, ..good.clone() }, "window_size"),
        (SwinConfig { window_size: usize::MAX, ..good }, "window_size"),
    ] {
        let error = error(config);
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn tables_that_belong_to_no_network_are_refused_by_name() {
    let table = "layers.0.blocks.0.attn.relative_position_bias_table";
    let norm = "layers.1.blocks.0.norm1.weight";
    for (name, shape, word) in [
        (table, vec![48, 2], "square of an odd number"),
        (table, vec![49], "[positions, heads]"),
        (table, vec![0, 2], "[positions, heads]"),
        (norm, vec![17], "width"),
    ] {
        let mut weights = Checkpoint::new(arrays("timm_swin").format);
        for (found, mut array) in part(&arrays("timm_swin"), "param.", str::to_owned) {
            if found == name {
                array.data = vec![0.0; shape.iter().product()];
                array.shape.clone_from(&shape);
            }
            weights.insert(found, array).unwrap();
        }
        let error = Architecture::detect(&weights, &ModelConfig::default()).unwrap_err();
        assert!(error.to_string().contains(word), "{shape:?}: {error}");
    }
}

#[test]
fn what_needs_tokens_that_all_attend_to_each_other_is_refused_by_name() {
    let golden = Golden::read("timm_swin");
    let prompt = Tensor::zeros([2, 16], &Device::cpu()).unwrap();
    let request = Request { prompt: Some(&prompt), ..Request::default() };
    let error = golden.net.forward(&golden.images(), &request).unwrap_err().to_string();
    assert!(error.contains("prompt tokens") && error.contains("windows"), "{error}");
}
