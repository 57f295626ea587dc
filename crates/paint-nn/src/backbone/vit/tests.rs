//! What a ViT promises beyond the golden numbers of `tests/golden_vit.rs`.

use paint_rng::Seed;
use paint_tensor::{Device, Precision, Tensor};

use super::*;
use crate::backbone::{AfterBlock, BACKBONES, LastBlock, Pooling, find};
use crate::checkpoint::{Array, Checkpoint, Dtype, Format, Preprocess};
use crate::params::Trainable;

const SIZES: VitConfig = VitConfig {
    image_size: [8, 12],
    patch_size: 4,
    embed_dim: 8,
    depth: 11,
    num_heads: 2,
    mlp_ratio: 2.0,
    num_classes: 5,
    variant: Variant::PLAIN,
};

fn vit() -> Vit {
    Vit::build("test", SIZES, Weights::Random(Seed(1)), &BuildOptions::new(&Device::cpu())).unwrap()
}

fn images(seed: u64, b: usize) -> Tensor {
    let mut rng = Seed(seed).derive("images", &[]);
    let data = (0..b * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, 8, 12], &Device::cpu()).unwrap()
}

fn close(a: &Tensor, b: &Tensor, tolerance: f32) {
    assert_eq!(a.shape(), b.shape());
    for (a, b) in a.to_vec().unwrap().iter().zip(&b.to_vec().unwrap()) {
        assert!((a - b).abs() <= tolerance, "{a} and {b}");
    }
}

fn checkpoint(config: &VitConfig) -> Checkpoint {
    let mut checkpoint = Checkpoint::new(Format::SafeTensors);
    for one in config.parameters() {
        let data = vec![0.5; one.shape.iter().product()];
        checkpoint.insert(one.name, Array { shape: one.shape, dtype: Dtype::F32, data }).unwrap();
    }
    checkpoint
}

fn options(input_size: [usize; 2], positions: Positions) -> BuildOptions {
    let preprocess = Preprocess { input_size, ..vit().spec().preprocess.clone() };
    BuildOptions { preprocess: Some(preprocess), positions, ..BuildOptions::new(&Device::cpu()) }
}

#[test]
fn the_first_two_blocks_are_chosen_without_the_tenth() {
    let names = vit().params().names(&Trainable::Blocks(0..2));
    assert!(names.contains(&"blocks.1.norm1.weight".to_owned()));
    assert!(!names.contains(&"blocks.10.norm1.weight".to_owned()));
    assert_eq!(names.len(), 24);
}

#[test]
fn what_the_methods_train_is_what_their_papers_name() {
    let vit = vit();
    let count = |choice: &Trainable| vit.params().select(choice).len();
    assert_eq!(vit.params().len(), 4 + 11 * 12 + 4);
    assert_eq!(count(&Trainable::NormAffine), 2 * (2 * 11 + 1));
    assert_eq!(count(&Trainable::Layers), vit.params().len() - 2);
    let sar = Trainable::NormAffine
        .except(Trainable::Any(vec![Trainable::Blocks(8..11), Trainable::FinalNorm]));
    assert_eq!(count(&sar), 2 * 2 * 8);
    let names = vit.params().names(&Trainable::Head);
    assert_eq!(names, ["head.weight", "head.bias"]);
}

#[test]
fn the_named_sizes_have_the_published_parameter_counts() {
    let millions = |config: VitConfig| {
        let count: usize =
            config.parameters().iter().map(|one| one.shape.iter().product::<usize>()).sum();
        (count as f64 / 1e4).round() / 100.0
    };
    assert_eq!(millions(VitConfig::tiny_patch16_224()), 5.72);
    assert_eq!(millions(VitConfig::small_patch16_224()), 22.05);
    assert_eq!(millions(VitConfig::base_patch16_224()), 86.57);
    assert_eq!(millions(VitConfig::large_patch16_224()), 304.33);
    assert_eq!(millions(VitConfig::tiny_patch4_32()), 5.36);
}

#[test]
fn the_embedding_of_a_mix_is_the_mix_of_the_embeddings() {
    let (vit, a, b) = (vit(), images(1, 2), images(2, 2));
    let mixed = vit.embed(&a.lerp(&b, 0.3).unwrap()).unwrap();
    close(&mixed, &vit.embed(&a).unwrap().lerp(&vit.embed(&b).unwrap(), 0.3).unwrap(), 1e-5);
}

#[test]
fn a_subset_of_classes_gives_those_logits_in_that_order() {
    let (mut vit, x) = (vit(), images(1, 2));
    let bias = vit.params().id("head.bias").unwrap();
    let biases = Tensor::from_vec(vec![0.0, 1.0, 2.0, 3.0, 4.0], [5], &Device::cpu()).unwrap();
    vit.params_mut().set(bias, &biases).unwrap();
    let all = vit.forward(&x, &Request::default()).unwrap().logits.to_vec().unwrap();
    let classes = [4, 0, 2];
    let some =
        vit.forward(&x, &Request { classes: Some(&classes), ..Request::default() }).unwrap().logits;
    let expected: Vec<f32> =
        all.chunks(5).flat_map(|row| classes.map(|class| row[class])).collect();
    close(&some, &Tensor::from_vec(expected, [2, 3], &Device::cpu()).unwrap(), 1e-6);
}

#[test]
fn int8_rounds_the_blocks_and_neither_the_embedding_nor_the_classifier() {
    let Ok(int8) = Device::open("cpu", Precision::Int8) else {
        return println!("skipped: this CPU lacks AVX-512 VNNI");
    };
    let [rounded, exact] = [int8, Device::cpu()].map(|device| {
        let options = BuildOptions::new(&device);
        let vit = Vit::build("test", SIZES, Weights::Random(Seed(1)), &options).unwrap();
        let pixels = images(1, 2).to_vec().unwrap();
        let x = Tensor::from_vec(pixels, [2, 3, 8, 12], &device).unwrap();
        let features = vit.forward(&x, &Request::default()).unwrap();
        let [weight, bias] =
            ["head.weight", "head.bias"].map(|name| vit.params().id(name).unwrap());
        let head = (&vit.params()[weight], Some(&vit.params()[bias]));
        let logits = features.pooled.linear(head.0, head.1).unwrap();
        let all = [vit.embed(&x).unwrap(), features.pooled, features.logits, logits];
        all.map(|tensor| tensor.to_vec().unwrap())
    });
    assert!(rounded[0] == exact[0] && rounded[1] != exact[1]);
    assert_eq!(rounded[2], rounded[3]);
}

#[test]
fn updating_a_duplicate_leaves_the_original() {
    let vit = vit();
    let before = vit.params().fingerprint(&Trainable::All).unwrap();
    let mut copy = vit.duplicate();
    let id = copy.params().id("norm.bias").unwrap();
    copy.params_mut().set(id, &Tensor::full([8], 1.0, &Device::cpu()).unwrap()).unwrap();
    assert_eq!(vit.params().fingerprint(&Trainable::All).unwrap(), before);
    assert_ne!(copy.params().fingerprint(&Trainable::All).unwrap(), before);
}

#[test]
fn a_frozen_model_records_nothing_and_a_prompt_alone_can_be_tracked() {
    let (vit, x) = (vit(), images(1, 2));
    assert!(!vit.forward(&x, &Request::default()).unwrap().logits.requires_grad());
    let prompt = Tensor::full([2, 8], 0.1, &Device::cpu()).unwrap().variable();
    let request =
        Request { prompt: Some(&prompt), pooling: Pooling::ClsAndPrompts, ..Request::default() };
    let gradients =
        vit.forward(&x, &request).unwrap().logits.sum_all().unwrap().backward().unwrap();
    assert_eq!(gradients.get(&prompt).unwrap().shape(), [2, 8]);
}

#[test]
fn the_same_seed_draws_the_same_weights_and_another_does_not() {
    let hash = |seed| {
        let weights = Weights::Random(Seed(seed));
        let vit = Vit::build("test", SIZES, weights, &BuildOptions::new(&Device::cpu())).unwrap();
        vit.params().fingerprint(&Trainable::All).unwrap()
    };
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4));
}

#[test]
fn weights_that_do_not_fit_are_refused_with_every_name() {
    let mut weights = checkpoint(&SIZES);
    weights.remove("blocks.3.mlp.fc1.bias").unwrap();
    weights.remove("norm.weight").unwrap();
    let array = |shape: Vec<usize>| Array {
        data: vec![0.0; shape.iter().product()],
        shape,
        dtype: Dtype::F32,
    };
    weights.insert("norm.weight".into(), array(vec![9])).unwrap();
    weights.insert("head_dist.weight".into(), array(vec![5, 8])).unwrap();
    let built = Vit::build(
        "test",
        SIZES,
        Weights::Checkpoint(weights),
        &options([8, 12], Positions::Exact),
    );
    let message = built.unwrap_err().to_string();
    for part in [
        "blocks.3.mlp.fc1.bias",
        "head_dist.weight",
        "\"norm.weight\" expected shape [8], found [9]",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_checkpoint_brings_its_number_of_classes() {
    let weights = checkpoint(&VitConfig { num_classes: 3, ..SIZES });
    let built = Vit::build(
        "test",
        SIZES,
        Weights::Checkpoint(weights),
        &options([8, 12], Positions::Exact),
    );
    assert_eq!(built.unwrap().spec().num_classes, 3);
}

#[test]
fn a_checkpoint_without_preprocessing_is_refused() {
    let built = Vit::build(
        "test",
        SIZES,
        Weights::Checkpoint(checkpoint(&SIZES)),
        &BuildOptions::new(&Device::cpu()),
    );
    assert!(built.unwrap_err().to_string().starts_with("preprocessing"));
}

#[test]
fn another_image_size_needs_interpolation_to_be_asked_for() {
    let square = VitConfig { image_size: [12, 12], ..SIZES };
    let build = |positions| {
        Vit::build(
            "test",
            square,
            Weights::Checkpoint(checkpoint(&square)),
            &options([8, 16], positions),
        )
    };
    assert!(build(Positions::Exact).unwrap_err().to_string().contains("[8, 16]"));
    let vit = build(Positions::Interpolate).unwrap();
    let position = vit.params().id("pos_embed").unwrap();
    // A constant stays one, whatever the kernel.
    close(&vit.params()[position], &Tensor::full([1, 9, 8], 0.5, &Device::cpu()).unwrap(), 1e-6);
}

#[test]
fn wrong_images_prompts_and_sizes_are_typed_errors() {
    let vit = vit();
    let transposed = Tensor::zeros([1, 3, 12, 8], &Device::cpu()).unwrap();
    let message = vit.embed(&transposed).unwrap_err().to_string();
    assert_eq!(message, "images: expected shape [1, 3, 8, 12], got [1, 3, 12, 8]");
    let prompt = Tensor::zeros([2, 9], &Device::cpu()).unwrap();
    let request = Request { prompt: Some(&prompt), ..Request::default() };
    assert!(matches!(vit.forward(&images(1, 1), &request), Err(Error::Shape { .. })));
    let odd = VitConfig { patch_size: 5, ..SIZES };
    assert!(
        Vit::build("odd", odd, Weights::Random(Seed(0)), &BuildOptions::new(&Device::cpu()))
            .is_err()
    );
}

#[test]
fn the_table_has_each_name_once_and_lists_them_for_a_wrong_one() {
    for entry in BACKBONES {
        assert_eq!(BACKBONES.iter().filter(|other| other.name == entry.name).count(), 1);
    }
    let entry = find("vit_tiny_patch4_32").unwrap();
    let model = entry.build(Weights::Random(Seed(0)), &BuildOptions::new(&Device::cpu())).unwrap();
    assert_eq!(
        (model.spec().image_size, model.spec().num_classes, model.spec().depth),
        ([32, 32], 10, 12)
    );
    let message = find("vit_huge").unwrap_err().to_string();
    assert!(message.contains("vit_base_patch16_224") && message.contains("vit_huge"), "{message}");
}

/// Scales the tokens after one block, and counts the calls.
#[derive(Debug)]
struct Hook {
    at: usize,
    factor: f32,
    seen: std::cell::RefCell<Vec<Vec<usize>>>,
}

impl AfterBlock for Hook {
    fn before_blocks(&self, _prefix: usize, tokens: &Tensor) -> Result<()> {
        self.seen.borrow_mut().push(tokens.shape().to_vec());
        Ok(())
    }

    fn after_block(&self, index: usize, _prefix: usize, tokens: Tensor) -> Result<Tensor> {
        self.seen.borrow_mut().push(tokens.shape().to_vec());
        Ok(if index == self.at { tokens.scale(self.factor)? } else { tokens })
    }
}

#[test]
fn a_hook_sees_every_block_and_decides_what_the_next_one_reads() {
    let (vit, x) = (vit(), images(1, 2));
    let plain = vit.forward(&x, &Request::default()).unwrap().logits.to_vec().unwrap();
    for (factor, same) in [(1.0, true), (2.0, false)] {
        let hook = Hook { at: 3, factor, seen: std::cell::RefCell::default() };
        let request = Request { after_block: Some(&hook), ..Request::default() };
        let logits = vit.forward(&x, &request).unwrap().logits.to_vec().unwrap();
        assert_eq!(logits == plain, same);
        let seen = hook.seen.into_inner();
        assert_eq!(seen.len(), 1 + SIZES.depth);
        assert!(seen[..SIZES.depth].iter().all(|shape| shape == &[2, 7, 8]));
        assert_eq!(seen[SIZES.depth], [2, 1, 8], "the pooled token alone");
    }
}

#[test]
fn a_hook_that_changes_the_shape_is_refused() {
    #[derive(Debug)]
    struct Cut;
    impl AfterBlock for Cut {
        fn after_block(&self, _index: usize, _prefix: usize, tokens: Tensor) -> Result<Tensor> {
            Ok(tokens.slice(1, 0, 1)?)
        }
    }
    let request = Request { after_block: Some(&Cut), ..Request::default() };
    let message = vit().forward(&images(1, 2), &request).unwrap_err().to_string();
    assert!(message.contains("expected shape [2, 7, 8], got [2, 1, 8]"), "{message}");
}

#[test]
fn patches_that_are_kept_enter_and_the_others_are_not_there() {
    let (vit, images) = (vit(), images(3, 2));
    let plain = vit.forward(&images, &Request::default()).unwrap().logits;
    let with = |patches: &[Vec<usize>]| {
        let request = Request { patches: Some(patches), ..Request::default() };
        vit.forward(&images, &request).map(|features| features.logits)
    };
    let all: Vec<usize> = (0..6).collect();
    assert_eq!(
        with(&[all.clone(), all.clone()]).unwrap().to_vec().unwrap(),
        plain.to_vec().unwrap()
    );
    // Positions travel with the patches, so their order is nothing; sums over keys round differently.
    let turned: Vec<usize> = all.iter().rev().copied().collect();
    close(&with(&[turned, all.clone()]).unwrap(), &plain, 1e-5);
    // What is left out may change as it likes.
    let some = [vec![0, 1, 4], vec![5, 2, 3]];
    let mut pixels = images.to_vec().unwrap();
    // Image 0 lacks patches 2, 3 and 5; patch 5 is rows 4 to 8 and columns 8 to 12.
    for channel in 0..3 {
        for row in 4..8 {
            pixels[(channel * 8 + row) * 12 + 8..(channel * 8 + row) * 12 + 12].fill(0.9);
        }
    }
    let other = Tensor::from_vec(pixels, [2, 3, 8, 12], &Device::cpu()).unwrap();
    let request = Request { patches: Some(&some), ..Request::default() };
    let found = vit.forward(&other, &request).unwrap().logits;
    close(&found, &with(&some).unwrap(), 0.0);
    assert_ne!(found.to_vec().unwrap(), plain.to_vec().unwrap());
    for wrong in [&[][..], &[vec![0], vec![0, 1]], &[vec![0], vec![6]], &[vec![], vec![]]] {
        let message = with(wrong).unwrap_err().to_string();
        assert!(message.contains("kept patches") && message.contains("below 6"), "{message}");
    }
}

#[test]
fn the_attention_of_the_pooled_tokens_is_the_first_rows_of_the_last_map() {
    let (vit, images) = (vit(), images(4, 2));
    let prompt = Tensor::full([2, 8], 0.3, &Device::cpu()).unwrap();
    for pooling in [Pooling::Cls, Pooling::ClsAndPrompts] {
        let map = |attention| {
            let request =
                Request { prompt: Some(&prompt), pooling, attention, ..Request::default() };
            vit.forward(&images, &request).unwrap()
        };
        let (pooled, every) = (map(Attention::Pooled), map(Attention::Keep));
        let m = if pooling == Pooling::Cls { 1 } else { 3 };
        assert_eq!((pooled.attention.len(), every.attention.len()), (1, SIZES.depth));
        let expected = every.attention[SIZES.depth - 1].map.slice(2, 0, m).unwrap();
        close(&pooled.attention[0].map, &expected, 1e-6);
        close(&pooled.logits, &map(Attention::Omit).logits, 0.0);
    }
}

/// Counts the tokens after each block.
#[derive(Debug, Default)]
struct Counting(std::cell::RefCell<Vec<usize>>);

impl AfterBlock for Counting {
    fn after_block(&self, _index: usize, _prefix: usize, tokens: Tensor) -> Result<Tensor> {
        self.0.borrow_mut().push(tokens.shape()[1]);
        Ok(tokens)
    }
}

#[test]
fn the_last_block_gives_every_token_where_that_is_asked_for() {
    let (vit, images) = (vit(), images(5, 2));
    let run = |last_block| {
        let hook = Counting::default();
        let request = Request { last_block, after_block: Some(&hook), ..Request::default() };
        let logits = vit.forward(&images, &request).unwrap().logits;
        (logits, hook.0.into_inner())
    };
    let ((plain, few), (whole, all)) = (run(LastBlock::Pooled), run(LastBlock::Whole));
    assert_eq!((few[9..].to_vec(), all[9..].to_vec()), (vec![7, 1], vec![7, 7]));
    // The kernels of a whole and of a pooled block add in different orders.
    close(&whole, &plain, 1e-5);
}
