//! `DeYO`: entropy minimisation on samples whose prediction depends on the object's shape (Lee et al. 2024).
//!
//! A sure prediction may rest on colour or background, which a shift changes. Where it rests on shape it breaks when
//! the image is cut into patches that are put back in random order. Only samples that are sure and that break are
//! learned from, and both count in their weight. The prediction that counts is the one made before the step.
//!
//! Symbols: `z` logits, `p = softmax(z)`, `E_i` entropy, `τ_E` and `E₀` its margins, `ŷ_i = argmax z_i`, `x'` the
//! shuffled image, `P_i` the PLPD (pseudo-label probability difference), `τ_P` its margin. Equation numbers are those
//! that the authors' code cites. For each batch:
//!
//! 1. `z = f(x)`; `S = {i : E_i < τ_E}`.
//! 2. For `S`: `P_i = p(x_i)[ŷ_i] − p(x'_i)[ŷ_i]`; `x'` passes without gradients.
//! 3. `R = {i ∈ S : P_i > τ_P}` (Eq. 8).
//! 4. `L = (1/|R|) Σ_R (exp(E₀ − E_i) + exp(P_i)) E_i`, without gradients through the weights (Eq. 10).
//! 5. One step on the normalisation layers, if `R` is not empty.
//!
//! # Fidelity
//! - `margin` is `τ_E`, 0.5 of `ln C`, and `e0` is `E₀`, 0.4 of it. `plpd` is `τ_P`: 0.2, and 0.3 for networks with
//!   batch norms on ImageNet, whose setting the paper calls mild.
//! - `patches`: 4 on each side. The authors resize images whose sides are no multiple of it; here the rows and columns
//!   that are left over stay where they are.
//! - What trains is what trains in SAR (`frozen_blocks`).
//! - `lr`: SGD with momentum, 1e-3 at batch size 64 for transformers. The authors' rule scales it with the batch size,
//!   so the presets have it at 50. For residual networks it is 2.5e-4 at any batch size from 32 on. On CIFAR-10 the
//!   library of RMT's authors has Adam 1e-3 for residual networks; transformers are not published there.
//! - Batch norms see the shuffled images of `S` alone, as in the authors' code.

use std::sync::Arc;

use paint_settings::{Describe as _, at_least, between, linear, logarithmic, settings};
use paint_tensor::Tensor;

use super::sar::early_norms;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::draws::PatchDraws;
use crate::entropy_filter::{Entropies, mean_of};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::Step;
use crate::preset::{Preset, by_preset, from_64_to_50};
use crate::settings::Settings;
use crate::{Error, Result};

const NAME: &str = "deyo";

settings! {
    /// The settings of `DeYO`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `τ_E`, the entropy below which a sample may be learnt from, as a share of `ln C`.
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.1, 0.9))]
        pub margin: f64,
        /// `E₀`, the entropy at which a sample has weight 1 by its entropy, as a share of `ln C`.
        #[within(between(0.0, 1.0))]
        pub e0: f64,
        /// `τ_P`, the fall in probability above which a sample is learnt from.
        #[within(between(-1.0, 1.0))]
        #[tuned(linear(0.0, 0.6))]
        pub plpd: f64,
        /// As many patches on each side change places.
        #[within(at_least(1.0))]
        pub patches: usize,
        /// How many of the last blocks of a transformer do not train; nor does its final norm.
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
        let (optimizer, lr) = match preset {
            Preset::VitImagenet | Preset::VitCifar10 => (Descent::Momentum, from_64_to_50(1e-3)),
            Preset::CnnImagenet => (Descent::Momentum, 2.5e-4),
            Preset::CnnCifar10 => (Descent::Adam, 1e-3),
        };
        let plpd = if preset == Preset::CnnImagenet { 0.3 } else { 0.2 };
        let (margin, e0, patches, frozen_blocks) = (0.5, 0.4, 4, 3);
        Self { preset, margin, e0, plpd, patches, frozen_blocks, optimizer, lr }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2403.07366",
    what: "TENT on confident samples whose prediction breaks when patches of the image change places",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Deyo::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Deyo {
    config: Config,
    learner: Learner,
    draws: Arc<dyn PatchDraws>,
}

impl Deyo {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let spec = args.model.spec();
        let [h, w] = spec.image_size;
        if config.patches > h.min(w) {
            let why = format!(
                "patches: expected at most {} on each side, got {}",
                h.min(w),
                config.patches
            );
            return Err(Error::Config { method: NAME, why });
        }
        let trained = early_norms(spec, config.frozen_blocks);
        let optimizer = config.optimizer.optimizer(trained.clone(), config.lr);
        let learner = Learner::new(NAME, args, trained, optimizer)?;
        Ok(Self { config, learner, draws: args.draws().patches })
    }

    /// `P` of the samples of `sure` (step 2). `p` holds the probabilities `[B, C]`.
    fn plpd(&self, images: &Tensor, sure: &[usize], p: &Tensor) -> Result<Vec<f32>> {
        let n = self.config.patches;
        let orders: Vec<Vec<usize>> =
            sure.iter().map(|&i| self.draws.patches(self.learner.step(), i, n * n)).collect();
        let broken = shuffled(&images.gather(sure)?, n, &orders)?;
        let labels = p.gather(sure)?.argmax()?;
        let before = p.gather(sure)?.pick(&labels)?.to_vec()?;
        let mut frozen = self.learner.model().duplicate();
        frozen.params_mut().freeze();
        let after = self.learner.forward(frozen.as_ref(), &broken)?.logits.softmax()?;
        let after = after.pick(&labels)?.to_vec()?;
        Ok(before.iter().zip(after).map(|(before, after)| before - after).collect())
    }
}

impl Adapt for Deyo {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The prediction, and its sure samples.
        self.learner.track();
        let z = self.learner.logits(images)?;
        let [b, c] = z.dims2("logits")?;
        let entropies = Entropies::new(&z, self.config.margin)?;
        let sure = entropies.reliable(0..b);
        // 2. What the shuffle costs them, 3. and whether it is enough.
        let plpd = match sure.as_slice() {
            [] => Vec::new(),
            sure => self.plpd(images, sure, &z.detach().softmax()?)?,
        };
        let chosen = sure.iter().zip(plpd).filter(|(_, p)| f64::from(*p) > self.config.plpd);
        let (kept, plpd): (Vec<usize>, Vec<f32>) = chosen.map(|(&i, p)| (i, p)).unzip();
        let mut scalars = vec![("reliable", sure.len() as f64), ("kept", kept.len() as f64)];
        if !kept.is_empty() {
            // 4. The weighted entropy.
            let e0 = (self.config.e0 * (c as f64).ln()) as f32;
            let mut weights = vec![0.0; b];
            for (&i, p) in kept.iter().zip(plpd) {
                weights[i] = (e0 - entropies.values[i]).exp() + p.exp();
            }
            let weights = Tensor::from_vec(weights, [b], z.device())?;
            let loss = mean_of(&entropies.tensor.mul(&weights)?, &kept)?;
            scalars.push(("loss", f64::from(self.learner.finite("the loss", loss.item()?)?)));
            // 5. One step.
            self.learner.update(&loss.backward()?)?;
        }
        Ok(Step { logits: z.detach(), scalars, prompt: None })
    }
}

/// Images cut into `n` times `n` patches, of which each image has its own order: place `i` takes patch `order[i]`.
fn shuffled(images: &Tensor, n: usize, orders: &[Vec<usize>]) -> Result<Tensor> {
    let [b, c, h, w] = images.dims4("images")?;
    let (ph, pw) = (h / n, w / n);
    let cut = images.slice(2, 0, n * ph)?.slice(3, 0, n * pw)?;
    let cut = cut.reshape([b, c, n, ph, n, pw])?.permute(&[0, 2, 4, 1, 3, 5])?; // [B, n, n, 3, ph, pw]
    let places = orders.iter().enumerate();
    let places: Vec<usize> =
        places.flat_map(|(i, order)| order.iter().map(move |patch| i * n * n + patch)).collect();
    let moved = cut.reshape([b * n * n, c * ph * pw])?.gather(&places)?;
    let moved = moved.reshape([b, n, n, c, ph, pw])?.permute(&[0, 3, 1, 4, 2, 5])?;
    let moved = moved.reshape([b, c, n * ph, n * pw])?;
    let right = images.slice(2, 0, n * ph)?.slice(3, n * pw, w - n * pw)?;
    let below = images.slice(2, n * ph, h - n * ph)?;
    Ok(Tensor::concat(&[&Tensor::concat(&[&moved, &right], 3)?, &below], 2)?)
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn picture(h: usize, w: usize) -> Tensor {
        let pixels = (0..2 * h * w).map(|i| i as f32).collect();
        Tensor::from_vec(pixels, [2, 1, h, w], &Device::cpu()).unwrap()
    }

    #[test]
    fn patches_change_places_as_the_order_of_their_image_says() {
        let rows = [vec![0, 1, 2, 3], vec![3, 2, 0, 1]];
        let found = shuffled(&picture(2, 4), 2, &rows).unwrap().to_vec().unwrap();
        assert_eq!(found[..8], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(found[8..], [14.0, 15.0, 12.0, 13.0, 8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn rows_and_columns_that_are_left_over_stay() {
        let order = vec![vec![3, 2, 1, 0]; 2];
        let found = shuffled(&picture(3, 5), 2, &order).unwrap().to_vec().unwrap();
        assert_eq!(found[..5], [7.0, 8.0, 5.0, 6.0, 4.0]);
        assert_eq!(found[10..15], [10.0, 11.0, 12.0, 13.0, 14.0]);
    }
}
