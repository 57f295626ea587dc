//! What residual networks promise beyond the golden numbers of `tests/golden_cnn.rs`.

use paint_rng::Seed;
use paint_tensor::{BnMode, Device, Tensor};

use super::*;
use crate::backbone::cifar_resnet::CifarResnetConfig;
use crate::backbone::{AfterBlock, Attention, find};
use crate::checkpoint::{Array, Checkpoint, Dtype, Format};
use crate::params::Trainable;

const TINY: CifarResnetConfig = CifarResnetConfig { width: 4, ..CifarResnetConfig::batch_norm(1) };

fn tiny() -> ResidualNet {
    TINY.build("tiny", Weights::Random(Seed(1)), &BuildOptions::new(&Device::cpu())).unwrap()
}

fn images(b: usize) -> Tensor {
    let mut rng = Seed(2).derive("images", &[]);
    let data = (0..b * 3 * 32 * 32).map(|_| rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, 32, 32], &Device::cpu()).unwrap()
}

fn logits(net: &ResidualNet, images: &Tensor) -> Vec<f32> {
    net.forward(images, &Request::default()).unwrap().logits.to_vec().unwrap()
}

#[test]
fn the_named_networks_have_the_published_parameter_counts() {
    for (name, expected) in [
        ("cifar_resnet20", 269_722),
        ("cifar_resnet56", 853_018),
        ("cifar_resnet26_gn", 366_938),
        ("resnet18", 11_689_512),
        ("wide_resnet40_2", 2_243_546),
    ] {
        let options = BuildOptions::new(&Device::cpu());
        let net = find(name).unwrap().build(Weights::Random(Seed(0)), &options).unwrap();
        assert_eq!(net.params().elem_count(&Trainable::All), expected, "{name}");
    }
}

#[test]
fn the_norms_are_what_the_methods_train() {
    let names = tiny().params().names(&Trainable::NormAffine);
    let mut expected = vec!["bn1.weight".to_owned(), "bn1.bias".to_owned()];
    for stage in 1..=3 {
        for layer in ["bn1.weight", "bn1.bias", "bn2.weight", "bn2.bias"] {
            expected.push(format!("layer{stage}.0.{layer}"));
        }
    }
    assert_eq!(names, expected);
    assert_eq!(tiny().params().names(&Trainable::Blocks(1..2)).len(), 6);
}

#[test]
fn the_statistics_of_the_batch_are_used_when_chosen_and_by_the_chosen_copy_alone() {
    let (mut net, images) = (tiny(), images(3));
    let running = logits(&net, &images);
    let copy = net.clone();
    net.set_batch_norm(BnMode::Batch);
    let batch = logits(&net, &images);
    assert_ne!(batch, running);
    assert_eq!(logits(&copy, &images), running);
    net.set_batch_norm(BnMode::Mixed { batch: 1.0 });
    assert_eq!(logits(&net, &images), batch);
    net.set_batch_norm(BnMode::Mixed { batch: 0.0 });
    assert_eq!(logits(&net, &images), running);
}

#[test]
fn several_batches_side_by_side_do_not_see_each_other() {
    let (mut net, images) = (tiny(), images(6));
    net.set_batch_norm(BnMode::Batch);
    let request = Request { batch_size: Some(2), ..Request::default() };
    let together = net.forward(&images, &request).unwrap().logits.to_vec().unwrap();
    let alone = (0..3).flat_map(|batch| logits(&net, &images.slice(0, 2 * batch, 2).unwrap()));
    let pairs: Vec<_> = together.into_iter().zip(alone).collect();
    assert_eq!(pairs.len(), 60);
    for (together, alone) in pairs {
        // Logits of order one behind eight norms, each of which sums in another order.
        assert!((together - alone).abs() < 1e-4, "{together} {alone}");
    }
    let error = net.forward(&images, &Request { statistics: Statistics::Keep, ..request });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a single batch") && error.contains("batches of 2"), "{error}");
}

#[test]
fn with_running_statistics_an_image_does_not_see_its_neighbours() {
    let (net, images) = (tiny(), images(5));
    let alone = logits(&net, &images.slice(0, 3, 1).unwrap());
    assert_eq!(logits(&net, &images)[30..40], alone);
}

#[test]
fn prompts_and_attention_maps_are_refused() {
    let (net, images) = (tiny(), images(1));
    let prompt = Tensor::zeros([2, 16], &Device::cpu()).unwrap();
    let asked = [
        Request { prompt: Some(&prompt), ..Request::default() },
        Request { attention: Attention::Keep, ..Request::default() },
    ];
    for (request, word) in asked.iter().zip(["prompt", "attention"]) {
        let error = net.forward(&images, request).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("tiny"), "{error}");
    }
}

#[test]
fn a_frozen_network_records_nothing() {
    let mut net = tiny();
    net.params_mut().track(&Trainable::NormAffine);
    assert!(net.forward(&images(1), &Request::default()).unwrap().logits.requires_grad());
    net.params_mut().freeze();
    assert!(!net.forward(&images(1), &Request::default()).unwrap().logits.requires_grad());
}

#[test]
fn a_checkpoint_brings_its_classes_and_every_misfit_is_named() {
    let options = BuildOptions {
        preprocess: Some(tiny().spec().preprocess.clone()),
        ..BuildOptions::new(&Device::cpu())
    };
    let array = |shape: &[usize]| Array {
        shape: shape.to_vec(),
        dtype: Dtype::F32,
        data: vec![0.5; shape.iter().product()],
    };
    let mut weights = Checkpoint::new(Format::SafeTensors);
    for param in tiny().params().iter() {
        weights.insert(param.name().to_owned(), array(param.tensor().shape())).unwrap();
        if let Some(layer) = param.name().strip_suffix(".bias").filter(|&layer| layer != "linear") {
            let shape = param.tensor().shape();
            weights.insert(format!("{layer}.running_mean"), array(shape)).unwrap();
            weights.insert(format!("{layer}.running_var"), array(shape)).unwrap();
            weights.insert(format!("{layer}.num_batches_tracked"), array(&[])).unwrap();
        }
    }
    for (name, shape) in [("linear.weight", vec![7, 16]), ("linear.bias", vec![7])] {
        weights.remove(name);
        weights.insert(name.to_owned(), array(&shape)).unwrap();
    }
    let net = TINY.build("tiny", Weights::Checkpoint(weights.clone()), &options).unwrap();
    assert_eq!(net.spec().num_classes, 7);
    weights.remove("layer1.0.bn1.running_var");
    weights.remove("conv1.weight");
    weights.insert("conv1.weight".into(), array(&[4, 3, 5, 5])).unwrap();
    weights.insert("layer9.weight".into(), array(&[1])).unwrap();
    let error = TINY.build("tiny", Weights::Checkpoint(weights), &options).unwrap_err().to_string();
    for word in ["layer1.0.bn1.running_var", "conv1.weight", "[4, 3, 5, 5]", "layer9.weight"] {
        assert!(error.contains(word), "{error}");
    }
}

/// Doubles what one block gives, and notes the shapes of all.
#[derive(Debug)]
struct Doubling(usize, std::cell::RefCell<Vec<Vec<usize>>>);

impl AfterBlock for Doubling {
    fn before_blocks(&self, _prefix: usize, images: &Tensor) -> Result<()> {
        self.1.borrow_mut().push(images.shape().to_vec());
        Ok(())
    }

    fn after_block(&self, index: usize, _prefix: usize, images: Tensor) -> Result<Tensor> {
        self.1.borrow_mut().push(images.shape().to_vec());
        Ok(if index == self.0 { images.scale(2.0)? } else { images })
    }
}

#[test]
fn a_hook_sees_every_block_and_decides_what_the_next_one_reads() {
    let (net, images) = (tiny(), images(2));
    let with = |at| {
        let hook = Doubling(at, std::cell::RefCell::default());
        let request = Request { after_block: Some(&hook), ..Request::default() };
        let features = net.forward(&images, &request).unwrap();
        (features, hook.1.into_inner())
    };
    let (untouched, shapes) = with(9);
    assert_eq!(shapes, [[2, 4, 32, 32], [2, 4, 32, 32], [2, 8, 16, 16], [2, 16, 8, 8]]);
    assert_eq!(untouched.logits.to_vec().unwrap(), logits(&net, &images));
    // After the last block comes the mean over pixels, which doubles too.
    let plain = net.forward(&images, &Request::default()).unwrap().pooled.scale(2.0).unwrap();
    assert_eq!(with(2).0.pooled.to_vec().unwrap(), plain.to_vec().unwrap());
    assert_ne!(with(0).0.logits.to_vec().unwrap(), logits(&net, &images));
}
