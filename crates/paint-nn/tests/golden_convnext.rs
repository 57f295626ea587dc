//! ConvNeXt under the names of timm, Hugging Face and torchvision: logits and gradients against the publishers' own
//! code (`fixtures/make_convnext.py`).

#![expect(clippy::unwrap_used, reason = "a golden file that cannot be read is a failed test")]

use std::path::Path;

use paint_nn::backbone::convnext::{Convnext, ConvnextConfig};
use paint_nn::backbone::{AfterBlock, Backbone, BuildOptions, Request, Weights};
use paint_nn::checkpoint::{
    self, Architecture, Array, Checkpoint, Convention, ConvnextSizes, ModelConfig, Preprocess,
    Publisher, Traits,
};
use paint_nn::loss::cross_entropy;
use paint_nn::params::Trainable;
use paint_tensor::{Device, Tensor};

const CASES: [&str; 3] = ["timm_convnext", "huggingface_convnext", "torchvision_convnext"];
const SIZES: ConvnextConfig =
    ConvnextConfig { depths: [1, 2, 1, 1], dims: [4, 6, 8, 10], num_classes: 5 };

/// A golden file and the network of its arrays.
struct Golden {
    arrays: Checkpoint,
    net: Convnext,
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

fn build(weights: Checkpoint, traits: Traits) -> Convnext {
    let options = BuildOptions {
        preprocess: Some(Preprocess::usual([44, 36])),
        traits,
        ..BuildOptions::new(&Device::cpu())
    };
    SIZES.build("convnext", Weights::Checkpoint(weights), &options).unwrap()
}

impl Golden {
    fn read(case: &str) -> Self {
        Self::renamed(case, str::to_owned)
    }

    fn renamed(case: &str, rename: impl Fn(&str) -> String) -> Self {
        let arrays = arrays(case);
        let (_, weights) = checkpoint::to_timm(part(&arrays, "param.", rename)).unwrap();
        let traits = Traits::of(&weights, &ModelConfig::default());
        Self { net: build(weights, traits), arrays }
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
    for case in CASES {
        let golden = Golden::read(case);
        let relative = gap(&golden.logits().to_vec().unwrap(), &golden.array("logits").data);
        // 5e-6: measured 3.8e-7.
        assert!(relative < 5e-6, "{case}: {relative}");
    }
}

#[test]
fn every_gradient_is_that_of_the_publishers_code() {
    for case in CASES {
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
            let got = gradients.get(param.tensor()).unwrap().to_vec().unwrap();
            let relative = gap(&got, &expected.get(name).unwrap().data);
            // 5e-5: measured 9e-6, in biases that a norm all but undoes.
            assert!(relative < 5e-5, "{case} {name}: {relative}");
        }
    }
}

#[test]
fn names_and_sizes_are_recognised() {
    let sizes = ConvnextSizes { depths: SIZES.depths, dims: SIZES.dims, num_classes: Some(5) };
    for (case, convention) in CASES.into_iter().zip([
        Convention::Timm,
        Convention::Convnext(Publisher::HuggingFace),
        Convention::Convnext(Publisher::Torchvision),
    ]) {
        let weights = part(&arrays(case), "param.", str::to_owned);
        let (found, weights) = checkpoint::to_timm(weights).unwrap();
        assert_eq!(found, convention, "{case}");
        let architecture = Architecture::detect(&weights, &ModelConfig::default()).unwrap();
        assert_eq!(architecture, Architecture::Convnext(sizes.clone()), "{case}");
    }
    let eps = |case: &str| {
        let (_, weights) =
            checkpoint::to_timm(part(&arrays(case), "param.", str::to_owned)).unwrap();
        Traits::of(&weights, &ModelConfig::default()).layer_norm_eps
    };
    assert_eq!((eps(CASES[0]), eps(CASES[1]), eps(CASES[2])), (None, Some(1e-12), None));
}

#[test]
fn the_authors_names_lead_to_the_same_network() {
    let authors = |name: &str| {
        let name = name
            .replace("stem.", "downsample_layers.0.")
            .replace(".blocks.", ".")
            .replace("conv_dw", "dwconv")
            .replace("mlp.fc1", "pwconv1")
            .replace("mlp.fc2", "pwconv2")
            .replace("head.norm", "norm")
            .replace("head.fc", "head");
        match name.split_once(".downsample.") {
            Some((stage, rest)) => {
                format!("{}.{rest}", stage.replace("stages.", "downsample_layers."))
            }
            None => name,
        }
    };
    let (old, new) = (Golden::renamed("timm_convnext", authors), Golden::read("timm_convnext"));
    assert_eq!(old.logits().to_vec().unwrap(), new.logits().to_vec().unwrap());
}

#[test]
fn mlps_that_are_convolutions_of_single_pixels_lead_to_the_same_network() {
    let golden = Golden::read("timm_convnext");
    let mut weights = Checkpoint::new(golden.arrays.format);
    for (name, mut array) in part(&golden.arrays, "param.", str::to_owned) {
        if name.contains(".mlp.") && array.shape.len() == 2 {
            array.shape.extend([1, 1]);
        }
        weights.insert(name, array).unwrap();
    }
    let (_, weights) = checkpoint::to_timm(weights).unwrap();
    let net = build(weights, Traits::default());
    let logits = net.forward(&golden.images(), &Request::default()).unwrap().logits;
    assert_eq!(logits.to_vec().unwrap(), golden.logits().to_vec().unwrap());
}

/// Doubles what one block gives, and notes the shapes of all.
#[derive(Debug)]
struct Doubling(usize, std::cell::RefCell<Vec<Vec<usize>>>);

impl AfterBlock for Doubling {
    fn before_blocks(&self, _prefix: usize, images: &Tensor) -> paint_nn::Result<()> {
        self.1.borrow_mut().push(images.shape().to_vec());
        Ok(())
    }

    fn after_block(
        &self,
        index: usize,
        _prefix: usize,
        images: Tensor,
    ) -> paint_nn::Result<Tensor> {
        self.1.borrow_mut().push(images.shape().to_vec());
        Ok(if index == self.0 { images.scale(2.0)? } else { images })
    }
}

#[test]
fn a_hook_sees_images_after_every_block_and_decides_what_the_next_one_reads() {
    let golden = Golden::read("timm_convnext");
    let with = |at| {
        let hook = Doubling(at, std::cell::RefCell::default());
        let request = Request { after_block: Some(&hook), ..Request::default() };
        let logits = golden.net.forward(&golden.images(), &request).unwrap().logits;
        (logits.to_vec().unwrap(), hook.1.into_inner())
    };
    let (untouched, shapes) = with(9);
    let (first, second) = ([3, 4, 11, 9], [3, 6, 5, 4]);
    assert_eq!(shapes, [first, first, second, second, [3, 8, 2, 2], [3, 10, 1, 1]]);
    assert_eq!(untouched, golden.logits().to_vec().unwrap());
    assert_ne!(with(1).0, untouched);
}

#[test]
fn what_a_transformer_alone_has_is_refused_by_name() {
    let golden = Golden::read("timm_convnext");
    let prompt = Tensor::zeros([2, 10], &Device::cpu()).unwrap();
    let request = Request { prompt: Some(&prompt), ..Request::default() };
    let error = golden.net.forward(&golden.images(), &request).unwrap_err().to_string();
    assert!(error.contains("prompt tokens") && error.contains("convolutional"), "{error}");
}
