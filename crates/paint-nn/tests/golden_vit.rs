//! The ViT, its gradients and the optimizers against timm and PyTorch (`fixtures/make_vit.py`).
//!
//! Images are 16x24, so that a transposed axis shows. `gap` is `max|a − b| / max|b|` over a tensor, as in the
//! fixtures' own float32-to-float64 comparison (below 3e-6 for every kind of key). What was measured is the largest
//! gap of the AMX, AVX-512 and portable kernels; tolerances are about five times that.

#![expect(clippy::unwrap_used, reason = "a golden file that cannot be read is a failed test")]

use std::collections::BTreeMap;
use std::path::Path;

use paint_nn::backbone::vit::{Variant, Vit, VitConfig};
use paint_nn::backbone::{
    Attention, Backbone, BuildOptions, Pooling, PromptPosition, Request, Weights,
};
use paint_nn::checkpoint::{self, Array, Checkpoint, CropMode, Interpolation, Preprocess};
use paint_nn::loss::cross_entropy;
use paint_nn::optim::{Adam, Group, Optimizer, Rule, Sam, Sgd};
use paint_nn::params::{Param, Params, Role, Trainable};
use paint_tensor::{Device, Gradients, Tensor};

struct Golden {
    vit: Vit,
    /// The prompt as the only parameter, or none.
    prompt: Params,
    position: PromptPosition,
    pooling: Pooling,
    arrays: Checkpoint,
}

impl Golden {
    fn read(case: &str, position: PromptPosition, pooling: Pooling) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../fixtures/vit/{case}.safetensors"));
        let arrays = checkpoint::read(path).unwrap();
        let config = VitConfig {
            image_size: [16, 24],
            patch_size: 4,
            embed_dim: 20,
            depth: 3,
            num_heads: 2,
            mlp_ratio: 3.0,
            num_classes: 7,
            variant: Variant::PLAIN,
        };
        let mut weights = Checkpoint::new(arrays.format);
        for (name, array) in arrays.iter() {
            if let Some(name) = name.strip_prefix("param.") {
                weights.insert(name.to_owned(), array.clone()).unwrap();
            }
        }
        let preprocess = Preprocess {
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
            input_size: [16, 24],
            crop_pct: 1.0,
            crop_mode: CropMode::Center,
            interpolation: Interpolation::Bicubic,
        };
        let options =
            BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(&Device::cpu()) };
        let vit = Vit::build(case, config, Weights::Checkpoint(weights), &options).unwrap();
        let mut prompt = Params::default();
        if let Some(array) = arrays.get("prompt") {
            prompt.insert("prompt", Role::Prompt, tensor(array)).unwrap();
        }
        Self { vit, prompt, position, pooling, arrays }
    }

    fn all() -> Vec<(&'static str, Self)> {
        let (none, at_cls) = (PromptPosition::None, PromptPosition::Cls);
        vec![
            ("plain", Self::read("plain", none, Pooling::Cls)),
            ("prompt_cls", Self::read("prompt_cls", at_cls, Pooling::Cls)),
            ("prompt_mean", Self::read("prompt_mean", at_cls, Pooling::ClsAndPrompts)),
            ("prompt_no_position", Self::read("prompt_no_position", none, Pooling::Cls)),
        ]
    }

    fn array(&self, key: &str) -> &Array {
        self.arrays.get(key).unwrap_or_else(|| panic!("the fixture has no {key}"))
    }

    fn labels(&self) -> Vec<usize> {
        self.array("labels").data.iter().map(|&label| label as usize).collect()
    }

    fn request(&self) -> Request<'_> {
        let prompt = self.prompt.iter().next().map(Param::tensor);
        Request { prompt, position: self.position, pooling: self.pooling, ..Request::default() }
    }

    fn gradients(&self) -> Gradients {
        let logits =
            self.vit.forward(&tensor(self.array("images")), &self.request()).unwrap().logits;
        cross_entropy(&logits, &self.labels()).unwrap().mean_all().unwrap().backward().unwrap()
    }

    fn track(&mut self) {
        self.vit.params_mut().track(&Trainable::All);
        self.prompt.track(&Trainable::All);
    }

    fn values(&self) -> BTreeMap<String, Vec<f32>> {
        let all = self.vit.params().iter().chain(self.prompt.iter());
        all.map(|param| (param.name().to_owned(), param.tensor().to_vec().unwrap())).collect()
    }
}

fn tensor(array: &Array) -> Tensor {
    Tensor::from_vec(array.data.clone(), &array.shape, &Device::cpu()).unwrap()
}

fn gap(got: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(got.len(), expected.len());
    let largest = |values: &mut dyn Iterator<Item = f32>| values.map(f32::abs).fold(0.0, f32::max);
    let difference = largest(&mut got.iter().zip(expected).map(|(a, b)| a - b));
    assert!(got.iter().chain(expected).all(|value| value.is_finite()));
    difference / largest(&mut expected.iter().copied()).max(1e-30)
}

/// Splits off the key third of `attn.qkv.bias`, whose true gradient is zero: adding a constant to all keys changes no
/// attention weight, so what is there is rounding.
fn without_key_bias<'a>(name: &str, values: &'a [f32]) -> (Vec<f32>, &'a [f32]) {
    if !name.ends_with("attn.qkv.bias") {
        return (values.to_vec(), &[]);
    }
    let d = values.len() / 3;
    ([&values[..d], &values[2 * d..]].concat(), &values[d..2 * d])
}

#[test]
fn logits_and_features_are_those_of_timm() {
    for (case, golden) in Golden::all() {
        let features =
            golden.vit.forward(&tensor(golden.array("images")), &golden.request()).unwrap();
        for (key, got) in [("logits", &features.logits), ("pooled", &features.pooled)] {
            let relative = gap(&got.to_vec().unwrap(), &golden.array(key).data);
            eprintln!("{case} {key}: largest relative difference {relative:.1e}");
            // 4e-6: measured 7e-7.
            assert!(relative < 4e-6, "{case} {key}: {relative}");
        }
    }
}

#[test]
fn every_gradient_is_that_of_pytorch() {
    for (case, mut golden) in Golden::all() {
        golden.track();
        let gradients = golden.gradients();
        let mut worst = 0.0_f32;
        for param in golden.vit.params().iter().chain(golden.prompt.iter()) {
            let name = param.name();
            let got = gradients
                .get(param.tensor())
                .unwrap_or_else(|| panic!("{case}: {name} got no gradient"));
            let got = got.to_vec().unwrap();
            let (got, got_key) = without_key_bias(name, &got);
            let (expected, expected_key) =
                without_key_bias(name, &golden.array(&format!("grad.{name}")).data);
            let relative = gap(&got, &expected);
            // 8e-6: measured 1.7e-6.
            assert!(relative < 8e-6, "{case} {name}: {relative}");
            // 1e-6: both sides are rounding, measured below 2e-8.
            assert!(
                got_key.iter().zip(expected_key).all(|(a, b)| (a - b).abs() < 1e-6),
                "{case} {name}"
            );
            worst = worst.max(relative);
        }
        eprintln!("{case}: largest relative difference of a gradient {worst:.1e}");
    }
}

#[test]
fn attention_maps_and_their_gradients_are_those_of_pytorch() {
    let golden = Golden::read("prompt_cls", PromptPosition::Cls, Pooling::Cls);
    let images = tensor(golden.array("images")).slice(0, 0, 2).unwrap();
    let request = Request { attention: Attention::WithGradient, ..golden.request() };
    let features = golden.vit.forward(&images, &request).unwrap();
    let target = features.logits.argmax().unwrap();
    assert_eq!(
        target.iter().map(|&class| class as f32).collect::<Vec<_>>(),
        golden.array("attn_target").data
    );
    let gradients = features.logits.pick(&target).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(features.attention.len(), 3);
    for (i, attention) in features.attention.iter().enumerate() {
        let map = &golden.array(&format!("attn.{i}")).data;
        let relative = gap(&attention.map.to_vec().unwrap(), map);
        // 3e-6 for both: measured 5e-7 and 6e-7.
        assert!(relative < 3e-6, "block {i}: {relative}");
        let got = attention.gradient(&gradients).unwrap().unwrap().to_vec().unwrap();
        let relative = gap(&got, &golden.array(&format!("attn_grad.{i}")).data);
        assert!(relative < 3e-6, "gradient of block {i}: {relative}");
    }
}

#[test]
fn the_short_last_block_gives_what_the_whole_one_gives() {
    for (case, golden) in Golden::all() {
        let images = tensor(golden.array("images"));
        let short = golden.vit.forward(&images, &golden.request()).unwrap();
        let whole = golden
            .vit
            .forward(&images, &Request { attention: Attention::Keep, ..golden.request() })
            .unwrap();
        let relative = gap(&short.logits.to_vec().unwrap(), &whole.logits.to_vec().unwrap());
        // 2e-6: perhaps another order of the same sums; measured 0.
        assert!(relative < 2e-6, "{case}: {relative}");
        assert!(short.attention.is_empty());
    }
}

/// Ten steps over all parameters and the prompt with one optimizer, against the fixture's `<kind>10.*`.
#[expect(clippy::print_stderr, reason = "what was measured stands beside the tolerance")]
fn ten_steps(kind: &str, mut step: impl FnMut(&mut Golden)) {
    let mut golden = Golden::read("prompt_mean", PromptPosition::Cls, Pooling::ClsAndPrompts);
    golden.track();
    for _ in 0..10 {
        step(&mut golden);
    }
    let mut worst = 0.0_f32;
    for (name, got) in golden.values() {
        let (got, _) = without_key_bias(&name, &got);
        let (expected, _) =
            without_key_bias(&name, &golden.array(&format!("{kind}10.{name}")).data);
        let relative = gap(&got, &expected);
        // 5e-6: measured 9e-7.
        assert!(relative < 5e-6, "{kind} {name}: {relative}");
        let (before, _) = match name.as_str() {
            "prompt" => without_key_bias(&name, &golden.array("prompt").data),
            _ => without_key_bias(&name, &golden.array(&format!("param.{name}")).data),
        };
        assert!(
            gap(&before, &expected) > 10.0 * relative,
            "{kind} {name} hardly moves: the test would see nothing"
        );
        worst = worst.max(relative);
    }
    eprintln!("{kind}: largest relative difference after ten steps {worst:.1e}");
}

fn optimizer(rule: Rule, lr: f32) -> Optimizer {
    Optimizer::new(rule, vec![Group { select: Trainable::All, lr }])
}

fn plain_steps(kind: &str, rule: Rule, lr: f32) {
    let mut optimizer = optimizer(rule, lr);
    ten_steps(kind, |golden| {
        let gradients = golden.gradients();
        optimizer.step(golden.vit.params_mut(), &gradients).unwrap();
        optimizer.step(&mut golden.prompt, &gradients).unwrap();
    });
}

const SGD: Sgd = Sgd { momentum: 0.9, nesterov: true, weight_decay: 1e-4 };

#[test]
fn ten_sgd_steps_end_where_pytorch_ends() {
    plain_steps("sgd", Rule::Sgd(SGD), 0.05);
}

#[test]
fn ten_adam_steps_end_where_pytorch_ends() {
    plain_steps("adam", Rule::Adam(Adam::default()), 1e-3);
}

#[test]
fn ten_adamw_steps_end_where_pytorch_ends() {
    plain_steps("adamw", Rule::AdamW(Adam { weight_decay: 0.01, ..Adam::default() }), 1e-3);
}

#[test]
fn ten_sam_steps_end_where_pytorch_ends() {
    let mut sam = Sam::new(0.05, optimizer(Rule::Sgd(SGD), 0.05));
    ten_steps("sam", |golden| {
        let gradients = golden.gradients();
        sam.ascend(&mut [golden.vit.params_mut(), &mut golden.prompt], &gradients).unwrap();
        let gradients = golden.gradients();
        sam.descend(&mut [golden.vit.params_mut(), &mut golden.prompt], &gradients).unwrap();
    });
}
