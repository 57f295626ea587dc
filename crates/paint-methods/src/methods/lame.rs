//! LAME: predictions that agree with those of similar images in the batch (Boudiaf et al. 2022).
//!
//! Changing the network is what makes adaptation fragile. This changes its predictions alone: they are moved as little
//! as needed for images with similar features to be given similar classes. Nothing trains, and nothing is remembered
//! from batch to batch. It helps where classes come in runs, and harms where they are mixed.
//!
//! Symbols: `p_i` the source's probabilities, `h_i` features of length 1, `A_ij` the affinity of images `i` and `j`,
//! `k` the number of neighbours, `Y_i` the new probabilities. For each batch:
//!
//! 1. `p`, `h` by the source.
//! 2. `A_ij`: 1 for the `k` nearest other images of `i` (`knn`); `exp(−‖h_i − h_j‖² / 2σ²)`, with `σ` the mean distance
//!    to the `k`-th nearest image, itself included (`rbf`); or `h_i · h_j` (`linear`).
//! 3. From `Y = p`: `Y_i ← softmax(ln p_i + Σ_j A_ij Y_j)`, until `E(Y) = Σ_i Σ_c Y_ic (ln Y_ic − ln p_ic − Σ_j A_ij
//!    Y_jc)` changes by less than 1e-8 of itself, at most 100 times.
//!
//! # Fidelity
//! - `affinity`: the authors' code (fiveai/LAME) has `rbf` with `k = 5` as its default, and so has the library of RMT's
//!   authors. Its `σ` comes from the batch; the key that would set it is not read. `A` is not made symmetric.
//! - The authors return `Y`. Here it is `ln p + A Y`, whose softmax is `Y`, because every method gives logits.
//! - The authors add 1e-10 to probabilities before the logarithm, and so does this.
//! - Batch norms use the statistics of training, as in the authors' code.
//! - Where all images are alike `σ` is 0, and the authors' affinity is not a number; here it is 1.

mod affinity;

use paint_nn::backbone::BnMode;
use paint_settings::{Describe as _, at_least, choice, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::Learner;
use crate::method::Step;
use crate::preset::Preset;
use crate::settings::{Settings, read_with};
use affinity::agreement;

const NAME: &str = "lame";

choice! {
    /// When two images count as similar.
    pub enum Affinity {
        /// One is among the nearest of the other.
        Knn = "knn",
        /// The nearer, the more.
        Rbf = "rbf",
        /// By their cosine.
        Linear = "linear",
    }
}

settings! {
    /// The settings of LAME.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// When two images count as similar.
        pub affinity: Affinity,
        /// `k`, the number of neighbours; with `knn`, 0 is the source.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1.0, 20.0))]
        pub neighbours: usize,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self { preset, affinity: Affinity::Rbf, neighbours: 5 }
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
        read_with(NAME, settings, Self::preset, |c: &Self| {
            let holds = c.affinity != Affinity::Rbf || c.neighbours > 0;
            vec![(holds, "neighbours: rbf takes the distance to one of 1 or more, got 0")]
        })
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2201.05718",
    what: "gives similar images of a batch similar classes; nothing trains",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: true,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        let config = Config::read(settings)?;
        let learner = Learner::frozen(args).with_batch_norm(BnMode::Running);
        Ok(Box::new(Deployed::new(Lame { config, learner })))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Lame {
    config: Config,
    learner: Learner,
}

impl Lame {
    /// `ln p + A Y`, and how often `Y` was improved.
    fn agreed(&self, images: &Tensor) -> Result<(Tensor, usize)> {
        // 1. The source.
        let features = self.learner.forward(self.learner.model(), images)?;
        let [b, c] = features.logits.dims2("logits")?;
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
        let p = wide(features.logits.softmax()?.to_vec()?);
        let h = wide(features.pooled.l2_normalize()?.to_vec()?);
        // 2. The affinities.
        let a = affinity::matrix(&h, b, self.config.affinity, self.config.neighbours);
        // 3. The agreement.
        let (logits, rounds) = agreement(&p, &a, c);
        let logits = logits.into_iter().map(|z| z as f32).collect();
        Ok((Tensor::from_vec(logits, [b, c], images.device())?, rounds))
    }
}

impl Adapt for Lame {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        let (logits, rounds) = self.agreed(images)?;
        Ok(Step { logits, scalars: vec![("rounds", rounds as f64)], prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.agreed(images)?.0)
    }

    fn has_own_classifier(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};
    use toml::{Table, toml};

    use crate::{BuildArgs, by_name, tiny_vit};

    fn probabilities(name: &str, settings: &Table) -> Vec<f32> {
        let vit = tiny_vit::build(tiny_vit::CONFIG, 3, &[("head.weight", 25.0)], &Device::cpu());
        let mut rng = Seed(1).derive("lame/images", &[]);
        let pixels = (0..6 * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
        let images = Tensor::from_vec(pixels, [6, 3, 8, 12], &Device::cpu()).unwrap();
        let args = BuildArgs::new(&vit, Seed(0));
        let mut method = by_name(name).unwrap().build(&args, settings).unwrap();
        method.step(&images).unwrap().logits.softmax().unwrap().to_vec().unwrap()
    }

    #[test]
    fn without_neighbours_it_is_the_source_and_with_them_it_is_not() {
        let source = probabilities("source", &Table::new());
        let alone = probabilities("lame", &toml! { affinity = "knn" neighbours = 0 });
        assert!(source.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-5));
        let drawn = probabilities("lame", &toml! { affinity = "knn" neighbours = 2 });
        assert!(source.iter().zip(&drawn).any(|(a, b)| (a - b).abs() > 1e-2));
    }

    #[test]
    fn a_width_that_no_neighbour_gives_is_refused() {
        let refused = by_name("lame").unwrap().resolve(&toml! { neighbours = 0 }).unwrap_err();
        assert!(refused.to_string().contains("neighbours: rbf"), "{refused}");
    }
}
