//! Convolutional networks and their operations against PyTorch (`fixtures/make_cnn.py`).
//!
//! Images are not square, so that a transposed axis shows. `gap` is `max|a − b| / max|b|` over a tensor. What was
//! measured is the largest gap of the AMX, AVX-512 and portable kernels; tolerances are about five times that.

#![expect(clippy::unwrap_used, reason = "a golden file that cannot be read is a failed test")]

use std::path::Path;

use paint_nn::backbone::cifar_resnet::{CifarResnetConfig, CifarVariant};
use paint_nn::backbone::residual::ResidualNet;
use paint_nn::backbone::resnet::{BlockKind, ResnetConfig, StrideIn};
use paint_nn::backbone::wide_resnet::WideResnetConfig;
use paint_nn::backbone::{Backbone, BnMode, BuildOptions, Request, Weights};
use paint_nn::checkpoint::{self, Array, Checkpoint, CropMode, Interpolation, Preprocess};
use paint_nn::loss::cross_entropy;
use paint_nn::params::Trainable;
use paint_tensor::{BatchNorm, Conv2d, Device, Tensor};

const MODES: [(&str, BnMode); 3] = [
    ("running", BnMode::Running),
    ("batch", BnMode::Batch),
    ("mixed", BnMode::Mixed { batch: 0.3 }),
];

fn read(name: &str) -> Checkpoint {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cnn");
    checkpoint::read(folder.join(format!("{name}.safetensors"))).unwrap()
}

fn tensor(arrays: &Checkpoint, key: &str) -> Tensor {
    let array = arrays.get(key).unwrap_or_else(|| panic!("the fixture has no {key}"));
    Tensor::from_vec(array.data.clone(), &array.shape, &Device::cpu()).unwrap()
}

fn gap(got: &Tensor, expected: &Array) -> f32 {
    assert_eq!(got.shape(), expected.shape);
    let got = got.to_vec().unwrap();
    let largest = |values: &mut dyn Iterator<Item = f32>| values.map(f32::abs).fold(0.0, f32::max);
    assert!(got.iter().chain(&expected.data).all(|value| value.is_finite()));
    let difference = largest(&mut got.iter().zip(&expected.data).map(|(a, b)| a - b));
    difference / largest(&mut expected.data.iter().copied()).max(1e-30)
}

type Build = fn(Weights, &BuildOptions) -> paint_nn::Result<ResidualNet>;

fn resnet(block: BlockKind) -> ResnetConfig {
    ResnetConfig { blocks: [1, 2, 1, 1], block, width: 2, num_classes: 1 }
}

const CASES: [(&str, Build); 6] = [
    ("cifar_bn", |weights, options| {
        let config = CifarResnetConfig { width: 4, ..CifarResnetConfig::batch_norm(2) };
        config.build("cifar_bn", weights, options)
    }),
    ("cifar_gn", |weights, options| {
        let variant = CifarVariant::GroupNorm { groups: 2 };
        let config = CifarResnetConfig { blocks: 2, width: 4, variant, num_classes: 1 };
        config.build("cifar_gn", weights, options)
    }),
    ("resnet_basic", |weights, options| {
        resnet(BlockKind::Basic).build("resnet_basic", weights, options)
    }),
    ("resnet_conv3x3", |weights, options| {
        resnet(BlockKind::Bottleneck(StrideIn::Conv3x3)).build("conv3x3", weights, options)
    }),
    ("resnet_conv1x1", |weights, options| {
        resnet(BlockKind::Bottleneck(StrideIn::Conv1x1)).build("conv1x1", weights, options)
    }),
    ("wide", |weights, options| {
        let config = WideResnetConfig { blocks: 2, widen: 2, width: 2, num_classes: 1 };
        config.build("wide", weights, options)
    }),
];

fn network(case: &str, build: Build, arrays: &Checkpoint) -> ResidualNet {
    let mut weights = Checkpoint::new(arrays.format);
    for (name, array) in arrays.iter() {
        if let Some(name) = name.strip_prefix("param.") {
            weights.insert(name.to_owned(), array.clone()).unwrap();
        }
    }
    let size = &arrays.get("images").unwrap().shape[2..];
    let preprocess = Preprocess {
        mean: [0.485, 0.456, 0.406],
        std: [0.229, 0.224, 0.225],
        input_size: [size[0], size[1]],
        crop_pct: 1.0,
        crop_mode: CropMode::Center,
        interpolation: Interpolation::Bicubic,
    };
    let options =
        BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(&Device::cpu()) };
    build(Weights::Checkpoint(weights), &options).unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn logits_and_features_are_those_of_pytorch_in_every_mode() {
    for (case, build) in CASES {
        let arrays = read(case);
        let mut net = network(case, build, &arrays);
        for (mode, batch_norm) in MODES {
            net.set_batch_norm(batch_norm);
            let found = net.forward(&tensor(&arrays, "images"), &Request::default()).unwrap();
            for (key, got) in [("logits", &found.logits), ("pooled", &found.pooled)] {
                let relative = gap(got, arrays.get(&format!("{mode}.{key}")).unwrap());
                eprintln!("{case} {mode} {key}: {relative:.1e}");
                // 2e-5: measured 4e-6; PyTorch's own float32-to-float64 gap is up to 3e-6.
                assert!(relative < 2e-5, "{case} {mode} {key}: {relative}");
            }
        }
    }
}

#[test]
fn every_gradient_is_that_of_pytorch() {
    for (case, build) in CASES {
        let arrays = read(case);
        let mut net = network(case, build, &arrays);
        net.params_mut().track(&Trainable::All);
        let labels: Vec<usize> =
            arrays.get("labels").unwrap().data.iter().map(|&label| label as usize).collect();
        let mut compared = 0;
        for (mode, batch_norm) in MODES {
            if !arrays.iter().any(|(name, _)| name.starts_with(&format!("{mode}.grad."))) {
                continue;
            }
            net.set_batch_norm(batch_norm);
            let logits =
                net.forward(&tensor(&arrays, "images"), &Request::default()).unwrap().logits;
            let loss = cross_entropy(&logits, &labels).unwrap().mean_all().unwrap();
            let gradients = loss.backward().unwrap();
            let mut worst = 0.0_f32;
            for param in net.params().iter() {
                let name = param.name();
                let got = gradients.get(param.tensor()).unwrap();
                let relative = gap(got, arrays.get(&format!("{mode}.grad.{name}")).unwrap());
                // 2e-4: measured 4e-5, where batch norms of few values stand one behind the other; 3e-6 elsewhere.
                assert!(relative < 2e-4, "{case} {mode} {name}: {relative}");
                worst = worst.max(relative);
                compared += 1;
            }
            eprintln!("{case} {mode}: largest relative difference of a gradient {worst:.1e}");
        }
        assert!(compared >= net.params().len(), "{case}: {compared} gradients in the fixture");
    }
}

/// Compares an operation's output and gradients with the fixture's.
fn operation(name: &str, inputs: usize, run: impl Fn(&[Tensor]) -> paint_tensor::Result<Tensor>) {
    let arrays = read("operations");
    let variables: Vec<Tensor> =
        (0..inputs).map(|i| tensor(&arrays, &format!("{name}.in{i}")).variable()).collect();
    let out = run(&variables).unwrap();
    let relative = gap(&out, arrays.get(&format!("{name}.out")).unwrap());
    // 3e-6 here and below: measured 4e-7.
    assert!(relative < 3e-6, "{name}: {relative}");
    let weighted = out.mul(&tensor(&arrays, &format!("{name}.weights"))).unwrap();
    let gradients = weighted.sum_all().unwrap().backward().unwrap();
    for (i, variable) in variables.iter().enumerate() {
        let got = gradients.get(variable).unwrap();
        let relative = gap(got, arrays.get(&format!("{name}.grad{i}")).unwrap());
        assert!(relative < 3e-6, "{name} gradient {i}: {relative}");
    }
}

#[test]
fn convolutions_of_every_geometry_are_those_of_pytorch() {
    for name in ["same", "stride2", "stride3", "pixels", "groups", "depthwise", "stem"] {
        let name = format!("conv_{name}");
        let how = read("operations").get(&format!("{name}.how")).unwrap().data.clone();
        let [stride, padding, groups] = [how[0], how[1], how[2]].map(|value| value as usize);
        operation(&name, 2, |x| x[0].conv2d(&x[1], Conv2d { stride, padding, groups }));
    }
}

#[test]
fn pooling_is_that_of_pytorch() {
    operation("max_pool", 1, |x| x[0].max_pool(3, 2, 1));
    operation("avg_pool", 1, |x| x[0].avg_pool(3, 2));
}

#[test]
fn norms_are_those_of_pytorch() {
    operation("group_norm", 3, |x| x[0].group_norm(3, &x[1], &x[2], 1e-5));
    let unused = Tensor::full([6], 1.0, &Device::cpu()).unwrap();
    operation("batch_norm", 3, |x| {
        x[0].batch_norm(&BatchNorm {
            scale: &x[1],
            shift: &x[2],
            running_mean: &unused,
            running_var: &unused,
            eps: 1e-5,
            mode: BnMode::Batch,
            batch_size: None,
        })
    });
}
