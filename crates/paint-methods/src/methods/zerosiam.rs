//! ZeroSiam: entropy minimisation with two asymmetric branches (Chen et al. 2026).
//!
//! A model that minimises its entropy can end up sure of one class for every image. A linear layer, the *predictor*,
//! is put before the classifier in one branch and left out of the other, whose prediction is only a target. Both
//! branches share one pass through the network. The predictor begins as the identity and takes up what would collapse
//! the model; the prediction that counts is the one without it, made before the step.
//!
//! Symbols: `z` features, `g` the classifier, `h` the predictor `[D, D]`, `sg` no gradient, `α` the weight of the
//! alignment. For each batch:
//!
//! 1. `p_r = softmax(g(z))`, `p_o = softmax(g(h z))`.
//! 2. `L = (1/B) Σ [H(p_o) + α D(p_o, sg p_r)]`, `D` the symmetric Kullback-Leibler divergence (Eq. 4).
//! 3. One step on the normalisation layers and one on the predictor, each with a rate of its own.
//!
//! # Fidelity
//! - The paper leaves the divergence open; the symmetric one is that of the authors' code (Cascol-Chen/ZeroSiam).
//! - The authors train every normalisation layer, and so does this.
//! - `lr`, `lr_predictor`: the authors' launch script multiplies a basic rate for batches of 64 by one factor for the
//!   norms and another for the predictor. ViT-B: 1e-3, by 5 and 5. ResNet-50 with group norms: 2.5e-4, by 10 and 100.
//!   (ViT-S, not a preset: 1e-4, by 10 and 100.) Their rate of a ViT is proportional to the batch size, so it
//!   is 3.9e-3 at 50; that of the ResNet is the same from 32 images on. Nothing is published for CIFAR.
//! - The authors double their rates for single images. Not implemented.

use paint_nn::loss;
use paint_nn::params::{Params, Part, Role, Slot, Trainable};
use paint_settings::{Describe as _, at_least, linear, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::attached::Attached;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::head::Head;
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset, from_64_to_50};
use crate::settings::Settings;

const NAME: &str = "zerosiam";

settings! {
    /// The settings of ZeroSiam.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `α`, the weight of the divergence between the branches.
        #[within(at_least(0.0))]
        #[tuned(linear(0.0, 2.0))]
        pub alignment: f64,
        /// The optimizer of the norms and of the predictor.
        pub optimizer: Descent,
        /// The learning rate of the norms.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
        /// The learning rate of the predictor.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-4, 1e-1))]
        pub lr_predictor: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let (lr, lr_predictor) = match preset {
            Preset::VitImagenet | Preset::VitCifar10 => (from_64_to_50(5e-3), from_64_to_50(5e-3)),
            Preset::CnnImagenet | Preset::CnnCifar10 => (2.5e-3, 2.5e-2),
        };
        Self { preset, alignment: 1.0, optimizer: Descent::Momentum, lr, lr_predictor }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2509.23183",
    what: "TENT through a linear predictor before the classifier, held to the prediction without it",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(ZeroSiam::new(args, &Config::read(settings)?)?)))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct ZeroSiam {
    alignment: f32,
    learner: Learner,
    head: Head,
    predictor: Attached,
}

impl ZeroSiam {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let learner = Learner::new(NAME, args, Trainable::NormAffine, optimizer)?;
        let head = Head::of(NAME, args.model, args.classes)?;
        let d = learner.spec().feature_dim;
        let identity = (0..d * d).map(|at| f32::from(u8::from(at / d == at % d))).collect();
        let mut params = Params::default();
        let role = Role::Block { index: 0, part: Part::Fc1, slot: Slot::Weight };
        params.insert("weight", role, Tensor::from_vec(identity, [d, d], &learner.device())?)?;
        let optimizer = config.optimizer.optimizer(Trainable::All, config.lr_predictor);
        let predictor = Attached::new(params, optimizer);
        Ok(Self { alignment: config.alignment as f32, learner, head, predictor })
    }
}

impl Adapt for ZeroSiam {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. Both branches.
        self.learner.track();
        self.predictor.track();
        let features = self.learner.forward(self.learner.model(), images)?;
        let (z, target) = (features.pooled, features.logits.detach());
        let online = self.head.logits(&z.linear(self.predictor.value(0), None)?)?;
        // 2. The losses.
        let entropy = loss::mean_entropy(&online)?;
        let apart = loss::symmetric_divergence(&online, &target)?.mean_all()?;
        let loss = entropy.add(&apart.scale(self.alignment)?)?;
        let value = self.learner.finite("the loss", loss.item()?)?;
        let (entropy, apart) = (entropy.item()?, apart.item()?);
        // 3. One step of each.
        let gradients = loss.backward()?;
        self.learner.update(&gradients)?;
        self.predictor.update(&gradients, &self.learner)?;
        let scalars = vec![
            ("loss", f64::from(value)),
            ("entropy", f64::from(entropy)),
            ("divergence", f64::from(apart)),
        ];
        Ok(Step { logits: target, scalars, prompt: None })
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("predictor", self.predictor.save());
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.predictor.load(&state.part("predictor"))
    }

    fn trainable_rest(&self) -> Vec<String> {
        self.predictor.names("predictor")
    }
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::vit::Vit;
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};
    use toml::toml;

    use crate::{BuildArgs, Method, by_name, tiny_vit};

    fn vit() -> Vit {
        let larger = [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
        tiny_vit::build(tiny_vit::CONFIG, 3, &larger, &Device::cpu())
    }

    fn images(seed: u64) -> Tensor {
        let mut rng = Seed(seed).derive("images", &[]);
        let pixels = (0..6 * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
        Tensor::from_vec(pixels, [6, 3, 8, 12], &Device::cpu()).unwrap()
    }

    fn logits(method: &mut dyn Method) -> Vec<f32> {
        (0..5)
            .flat_map(|seed| method.step(&images(seed)).unwrap().logits.to_vec().unwrap())
            .collect()
    }

    #[test]
    fn with_a_predictor_that_stays_the_identity_it_is_tent() {
        let model = vit();
        let args = BuildArgs::new(&model, Seed(0));
        let build = |name: &str, settings: &toml::Table| {
            by_name(name).unwrap().build(&args, settings).unwrap()
        };
        let mut tent = build("tent", &toml! { lr = 0.02 });
        let mut symmetric = build("zerosiam", &toml! { lr = 0.02 lr_predictor = 0.0 });
        let mut asymmetric = build("zerosiam", &toml! { lr = 0.02 lr_predictor = 0.02 });
        let (expected, found) = (logits(&mut *tent), logits(&mut *symmetric));
        // Logits of size 1 to 10 after four steps; the products with the identity round once more.
        let gap = |found: &[f32]| {
            found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!(gap(&found) < 1e-4, "{}", gap(&found));
        assert!(gap(&logits(&mut *asymmetric)) > 1e-3);
    }

    #[test]
    fn the_first_step_sees_no_divergence_and_later_ones_do() {
        let model = vit();
        let args = BuildArgs::new(&model, Seed(0));
        let settings = toml! { lr = 0.02 lr_predictor = 0.02 };
        let mut method = by_name("zerosiam").unwrap().build(&args, &settings).unwrap();
        let apart = |method: &mut dyn Method, seed| {
            let scalars = method.step(&images(seed)).unwrap().scalars;
            scalars.iter().find(|(name, _)| *name == "divergence").unwrap().1
        };
        assert!(apart(&mut *method, 0).abs() < 1e-9);
        assert!(apart(&mut *method, 1) > 1e-6);
    }
}
