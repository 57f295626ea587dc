//! REM: ranked entropy minimisation (Han et al. 2025).
//!
//! Entropy minimisation collapses because nothing holds a model to what it sees. Views of the same image are made
//! harder step by step, by taking away the patches that the class token attends to most. Predictions of harder views
//! follow those of easier ones, and an easier view must not be less sure than a harder one. The prediction that
//! counts is that of the whole image, before the step.
//!
//! Symbols: `a` the attention of the class token to the patches in the last block, mean over heads; `N` patches; `m`
//! the share that each view takes away beyond the one before, `n` views with the whole image; `p_i` the prediction of
//! view `i` and `H_i` its entropy; `λ` the weight of the ranking, `μ` its margin; `sg` no gradient. For each batch:
//!
//! 1. `p_0` and `a`, from the whole image.
//! 2. View `i` keeps the `⌊N (1 - i m)⌋` patches with the smallest `a`; `p_i` from those alone.
//! 3. `L = Σ_{i<j} mean CE(p_j, sg p_i) + λ Σ_{i<j} mean max(0, H_i - sg H_j + μ)`.
//! 4. One step on the normalisation layers, without those of the last blocks and the final one.
//!
//! # Fidelity
//! - `m = 0.1`, `n = 3`, `λ = 1`, `μ = 0` and the three last blocks are those of the authors' code for ImageNet; their
//!   margin is a share of `ln C`, and so is `margin` here. The paper prints 0, 5 and 10 % in places; `masked = 0.05`.
//! - `optimizer`, `lr`: Adam, 1e-3 at batch size 50, as published. For CIFAR it is the same, because no rate for it was
//!   found.
//! - Patches of equal attention are kept in their order. PyTorch leaves that open.

use paint_nn::backbone::{Attention, MapLayout, Request};
use paint_nn::loss;
use paint_settings::{Describe as _, at_least, from_to_below, linear, logarithmic, settings};
use paint_tensor::Tensor;

use super::sar::early_norms;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::Step;
use crate::preset::Preset;
use crate::settings::{Settings, read_with};

const NAME: &str = "rem";

settings! {
    /// The settings of REM.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `n`, the views with the whole image.
        #[within(at_least(2.0))]
        pub views: usize,
        /// `m`, the share of patches that each view takes away beyond the one before.
        #[within(from_to_below(0.0, 1.0))]
        #[tuned(linear(0.02, 0.3))]
        pub masked: f64,
        /// `λ`, the weight of the ranking.
        #[within(at_least(0.0))]
        pub ranking: f64,
        /// `μ`, by how much an easier view has to be surer, as a share of `ln C`.
        #[within(at_least(0.0))]
        pub margin: f64,
        /// How many of the last blocks do not train; nor does the final norm.
        pub frozen_blocks: usize,
        /// The optimizer.
        pub optimizer: Descent,
        /// Its learning rate.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self {
            preset,
            views: 3,
            masked: 0.1,
            ranking: 1.0,
            margin: 0.0,
            frozen_blocks: 3,
            optimizer: Descent::Adam,
            lr: 1e-3,
        }
    }

    fn rules(&self) -> Vec<(bool, &'static str)> {
        let most = (self.views.saturating_sub(1)) as f64 * self.masked;
        vec![(most < 1.0, "masked times the views after the first must be below 1")]
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;

    fn read(settings: &toml::Table) -> Result<Self> {
        read_with(NAME, settings, Self::preset, Self::rules)
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2505.16441",
    what: "views without the most attended patches follow the whole image, and must not be surer",
    needs_source: SourceNeed::None,
    runs_on: Networks::Transformers,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Rem::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Rem {
    config: Config,
    learner: Learner,
    /// `N`.
    patches: usize,
}

impl Rem {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let patches = args.transformer(NAME)?.num_patches();
        let trained = early_norms(args.model.spec(), config.frozen_blocks);
        let optimizer = config.optimizer.optimizer(trained.clone(), config.lr);
        Ok(Self { learner: Learner::new(NAME, args, trained, optimizer)?, config, patches })
    }

    /// How many patches view `number` keeps.
    fn kept(&self, number: usize) -> usize {
        let share = 1.0 - number as f64 * self.config.masked;
        ((self.patches as f64 * share) as usize).max(1)
    }
}

/// Attention `[B, h, M, T]` of pooled tokens, the patches the last of them → for each image its patches, the least
/// attended by the class token first; by all tokens, where there is no class token.
fn by_attention(map: &Tensor, layout: MapLayout) -> Result<Vec<Vec<usize>>> {
    let [_, _, _, t] = map.dims4("attention map")?;
    let n = layout.grid[0] * layout.grid[1];
    let heads = map.mean(1)?; // [B, M, T]
    let row = if layout.class_token {
        heads.slice(1, 0, 1)?.slice(2, t - n, n)?
    } else {
        heads.mean(1)?.slice(1, t - n, n)?
    };
    let order = |attention: &[f32]| {
        let mut patches: Vec<usize> = (0..n).collect();
        patches.sort_by(|&a, &b| attention[a].total_cmp(&attention[b]));
        patches
    };
    Ok(row.to_vec()?.chunks_exact(n).map(order).collect())
}

/// The first `count` of these patches, in the order of the image: what is kept whole gives the bits of the image.
fn first(order: &[usize], count: usize) -> Vec<usize> {
    let mut kept = order[..count].to_vec();
    kept.sort_unstable();
    kept
}

impl Adapt for Rem {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The whole image, and what it attends to.
        self.learner.track();
        let model = self.learner.model();
        let embedding = model.embed(images)?;
        let request = Request { attention: Attention::Pooled, ..self.learner.request() };
        let whole = model.forward_embedded(&embedding, &request)?;
        let mut views = vec![whole.logits];
        if let Some(last) = whole.attention.last() {
            // 2. The views without what it attends to most.
            let order = by_attention(&last.map, last.layout)?;
            for number in 1..self.config.views {
                let count = self.kept(number);
                let kept: Vec<Vec<usize>> = order.iter().map(|order| first(order, count)).collect();
                let request = Request { patches: Some(&kept), ..self.learner.request() };
                views.push(model.forward_embedded(&embedding, &request)?.logits);
            }
        }
        let logits = views[0].detach();
        // 3. The losses.
        let [_, c] = logits.dims2("logits")?;
        let margin = (self.config.margin * (c as f64).ln()) as f32;
        let Losses { consistency, ranking, misplaced } = losses(&views, margin)?;
        let loss = consistency.add(&ranking.scale(self.config.ranking as f32)?)?;
        let value = self.learner.finite("the loss", loss.item()?)?;
        let scalars = vec![
            ("loss", f64::from(value)),
            ("consistency", f64::from(consistency.item()?)),
            ("ranking", f64::from(ranking.item()?)),
            ("misplaced", misplaced as f64),
        ];
        // 4. One step.
        self.learner.update(&loss.backward()?)?;
        Ok(Step { logits, scalars, prompt: None })
    }
}

/// Both sums of Eq. 3.
struct Losses {
    consistency: Tensor,
    ranking: Tensor,
    /// Images and pairs of views of which the easier one is less sure.
    misplaced: usize,
}

/// The losses of the logits of the views, the easiest first.
fn losses(views: &[Tensor], margin: f32) -> Result<Losses> {
    let entropies: Vec<Tensor> =
        views.iter().map(loss::entropy).collect::<paint_nn::Result<_>>()?;
    let zero = Tensor::zeros([], views[0].device())?;
    let mut losses = Losses { consistency: zero.clone(), ranking: zero, misplaced: 0 };
    for (j, harder) in views.iter().enumerate() {
        for (i, easier) in views[..j].iter().enumerate() {
            let target = easier.detach().softmax()?;
            let follow = loss::cross_entropy_soft(harder, &target)?.mean_all()?;
            losses.consistency = losses.consistency.add(&follow)?;
            let above = entropies[i].sub(&entropies[j].detach())?.add_scalar(margin)?;
            losses.misplaced += above.to_vec()?.iter().filter(|&&above| above > 0.0).count();
            losses.ranking = losses.ranking.add(&above.relu()?.mean_all()?)?;
        }
    }
    Ok(losses)
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::cifar_resnet::{CifarResnetConfig, CifarVariant};
    use paint_nn::backbone::{BuildOptions, Weights};
    use paint_rng::Seed;
    use paint_tensor::Device;
    use toml::toml;

    use super::*;
    use crate::{by_name, tiny_vit};

    fn tensor<const N: usize>(data: &[f32], shape: [usize; N]) -> Tensor {
        Tensor::from_vec(data.to_vec(), shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn patches_are_ordered_by_the_mean_attention_of_the_class_token() {
        // One image, two heads, two pooled tokens, three patches; the second token's row counts for nothing.
        let heads = [[0.1, 0.5, 0.2, 0.2], [0.3, 0.3, 0.0, 0.4]];
        let other = [0.1, 0.0, 0.9, 0.0];
        let map: Vec<f32> = heads.iter().flat_map(|head| [*head, other].concat()).collect();
        let layout = MapLayout { grid: [1, 3], class_token: true };
        assert_eq!(by_attention(&tensor(&map, [1, 2, 2, 4]), layout).unwrap(), [[1, 2, 0]]);
        // Without a class token all four are patches, and the mean of both rows counts.
        let layout = MapLayout { grid: [2, 2], class_token: false };
        assert_eq!(by_attention(&tensor(&map, [1, 2, 2, 4]), layout).unwrap(), [[0, 3, 1, 2]]);
    }

    #[test]
    fn as_many_patches_stay_as_in_the_published_code() {
        let model = tiny_vit::build(tiny_vit::CONFIG, 3, &[], &Device::cpu());
        let args = BuildArgs::new(&model, Seed(0));
        let mut rem = Rem::new(&args, Config::default()).unwrap();
        rem.patches = 196;
        assert_eq!([1, 2].map(|number| rem.kept(number)), [176, 156]);
    }

    #[test]
    fn losses_of_two_views_by_hand() {
        let sure = [3_f32.ln(), 0.0]; // p = (3/4, 1/4)
        let (easy, hard) = (tensor(&sure, [1, 2]), tensor(&[0.0, 0.0], [1, 2]));
        let value = |views: &[Tensor], margin| {
            let losses = losses(views, margin).unwrap();
            [losses.consistency.item().unwrap(), losses.ranking.item().unwrap()]
        };
        let entropy = -(0.75_f32 * 0.75_f32.ln() + 0.25 * 0.25_f32.ln());
        let near = |found: [f32; 2], expected: [f32; 2]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        };
        // The harder view is less sure, as it should be: nothing to rank. CE of even odds is ln 2.
        near(value(&[easy.clone(), hard.clone()], 0.0), [2_f32.ln(), 0.0]);
        // The other way round the ranking is the difference of entropies, and a margin adds to it.
        let gap = 2_f32.ln() - entropy;
        let ce = -(0.5 * 0.75_f32.ln() + 0.5 * 0.25_f32.ln());
        near(value(&[hard.clone(), easy.clone()], 0.0), [ce, gap]);
        near(value(&[hard, easy], 0.25), [ce, gap + 0.25]);
    }

    #[test]
    fn views_that_are_the_whole_image_teach_nothing() {
        let larger = [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
        let model = tiny_vit::build(tiny_vit::CONFIG, 3, &larger, &Device::cpu());
        let mut rng = Seed(1).derive("images", &[]);
        let pixels: Vec<f32> = (0..6 * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
        let images = tensor(&pixels, [6, 3, 8, 12]);
        let moved = |masked: f64| {
            let settings =
                toml! { masked = masked frozen_blocks = 1 optimizer = "momentum" lr = 0.1 };
            let args = BuildArgs::new(&model, Seed(0));
            let mut method = by_name(NAME).unwrap().build(&args, &settings).unwrap();
            let before = method.predict(&images).unwrap().to_vec().unwrap();
            method.step(&images).unwrap();
            let after = method.predict(&images).unwrap().to_vec().unwrap();
            before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        // The gradient of a cross-entropy with itself is rounding; logits have size 10.
        assert!(moved(0.0) < 1e-4, "{}", moved(0.0));
        assert!(moved(0.2) > 1e-3, "{}", moved(0.2));
    }

    #[test]
    fn other_networks_and_views_that_keep_nothing_are_refused() {
        let variant = CifarVariant::BatchNorm;
        let sizes = CifarResnetConfig { blocks: 1, width: 4, variant, num_classes: 5 };
        let options = BuildOptions::new(&Device::cpu());
        let model = sizes.build("small", Weights::Random(Seed(0)), &options).unwrap();
        let args = BuildArgs::new(&model, Seed(0));
        let entry = by_name(NAME).unwrap();
        let message = entry.build(&args, &toml::Table::new()).err().unwrap().to_string();
        assert!(message.contains("tokens of a vision transformer, and small is none"), "{message}");
        let message = entry.resolve(&toml! { masked = 0.5 }).unwrap_err().to_string();
        assert!(message.contains("must be below 1"), "{message}");
    }
}
