//! The trait every method implements, and the table of all of them.

mod bn_adapt;
mod cotta;
mod cpl;
mod eata;
pub mod paint;
mod rmt;
mod santa;
mod sar;
mod source;
mod tent;
mod vdp;

use std::collections::BTreeMap;
use std::sync::Arc;

use paint_nn::backbone::Backbone;
pub use paint_nn::state::State;
use paint_rng::Seed;
use paint_tensor::Tensor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::draws::{Draws, Seeded};
use crate::preset::{CIFAR10, IMAGENET, Preset};
use crate::source_data::{Labelled, SourceData};
use crate::{Error, Result};

/// What one batch gave.
#[derive(Debug, Clone)]
pub struct Step {
    /// `[B, C]`, the prediction that counts.
    pub logits: Tensor,
    /// Figures of the step by name (losses, confident samples, ...), for logs and reports.
    pub scalars: Vec<(&'static str, f64)>,
    /// The prompt that was used, for methods with a prompt memory.
    pub prompt: Option<PromptUse>,
}

/// Which prompt a batch used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptUse {
    /// Its number; a number is never given twice.
    pub index: usize,
    /// True if it was allocated for this batch.
    pub allocated: bool,
    /// `r_s`, Eq. 4: the mean similarity of the batch to the key that won its vote; `None` where nothing was voted on.
    pub reliability: Option<f32>,
}

/// A method of test-time adaptation. Images are `[B, 3, H, W]` with values in [0, 1]; the model normalises them itself.
pub trait Method: Send {
    /// Adapts to a batch and predicts it. On an error the state is as it was before.
    fn step(&mut self, images: &Tensor) -> Result<Step>;
    /// `[B, C]` logits with the present state, which does not change.
    fn predict(&self, images: &Tensor) -> Result<Tensor>;
    /// The same for images that may come from a domain not met before, by which forgetting is measured: what the method
    /// would make for such a domain is made for this once.
    fn probe(&self, images: &Tensor) -> Result<Tensor> {
        self.predict(images)
    }
    /// Back to the source model, bit for bit.
    fn reset(&mut self) -> Result<()>;
    /// Everything that adaptation changed. Enough to continue with the same bits in a method built in the same way.
    fn save(&self) -> Result<State>;
    /// Continues from a saved state.
    fn load(&mut self, state: &State) -> Result<()>;
    /// The names of the parameters that adaptation may change.
    fn trainable(&self) -> Vec<String>;
    /// The adapted model, for methods that have a single one.
    fn model(&self) -> Option<&dyn Backbone> {
        None
    }
    /// Tells the true domain, for oracle experiments; methods that take no oracle ignore it.
    fn set_domain(&mut self, _domain: Option<usize>) {}
}

/// What a method is built from, beside its settings.
#[derive(Clone, Copy)]
pub struct BuildArgs<'a> {
    /// The source model. A method works on duplicates, which share its memory until they differ.
    pub model: &'a dyn Backbone,
    /// Every random draw of the method comes from here.
    pub seed: Seed,
    /// Only these classes compete, in this order (ImageNet-R has 200 of ImageNet's 1000); `None` for all.
    pub classes: Option<&'a [usize]>,
    /// Source images, for the methods whose row says that they need them.
    pub source: Option<SourceData<'a>>,
    /// Recorded draws in place of those that `seed` gives.
    pub draws: Option<&'a Arc<dyn Draws>>,
}

impl<'a> BuildArgs<'a> {
    /// All classes of `model`.
    pub fn new(model: &'a dyn Backbone, seed: Seed) -> Self {
        Self { model, seed, classes: None, source: None, draws: None }
    }

    /// The recorded draws, or those of the seed.
    fn draws(&self) -> Arc<dyn Draws> {
        self.draws.map_or_else(|| Arc::new(Seeded(self.seed)) as Arc<dyn Draws>, Arc::clone)
    }

    /// The source images a method needs.
    fn unlabelled(&self, method: &'static str) -> Result<&'a Tensor> {
        let missing = Error::NoSource { method, need: "unlabelled source images", found: "none" };
        self.source.ok_or(missing)?.images(self.model.spec())
    }

    /// The source images and labels a method needs.
    fn labelled(&self, method: &'static str) -> Result<Labelled> {
        let missing = |found| Error::NoSource { method, need: "labelled source images", found };
        let spec = self.model.spec();
        let classes = self.classes.map_or(spec.num_classes, <[usize]>::len);
        let source = self.source.ok_or_else(|| missing("none"))?;
        source.labelled(spec, classes)?.ok_or_else(|| missing("images without labels"))
    }
}

/// Which source data a method needs before it is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceNeed {
    /// None: the weights are enough.
    None,
    /// Images without labels.
    Unlabelled,
    /// Images with labels.
    Labelled,
}

/// A row of [`METHODS`].
pub struct MethodEntry {
    /// The name in TOML, on the command line and in results.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// One line on what it does.
    pub what: &'static str,
    /// The source data it needs.
    pub needs_source: SourceNeed,
    build: fn(&BuildArgs<'_>, &toml::Table) -> Result<Box<dyn Method>>,
    resolve: fn(&toml::Table) -> Result<toml::Table>,
}

impl MethodEntry {
    /// The method with these settings; a key it does not know is refused by name.
    pub fn build(&self, args: &BuildArgs<'_>, settings: &toml::Table) -> Result<Box<dyn Method>> {
        (self.build)(args, settings)
    }

    /// The settings with every default written out, as they are saved beside a result. Building from them gives the
    /// same method.
    pub fn resolve(&self, settings: &toml::Table) -> Result<toml::Table> {
        (self.resolve)(settings)
    }

    /// Settings for a network and the benchmark it meets, if that is known: where a baseline is not told its preset, or told
    /// no more than a benchmark, with the one that was published for networks like this. PAINT's own presets say whose
    /// equations are followed, which no network decides.
    pub fn fit(
        &self,
        settings: &toml::Table,
        model: &dyn Backbone,
        benchmark: Option<&str>,
    ) -> Result<toml::Table> {
        let mut settings = settings.clone();
        let taken = self.resolve(&settings)?.remove(PRESET).map(toml::Value::try_into::<Preset>);
        let told = settings.get(PRESET).and_then(toml::Value::as_str);
        let named = told.filter(|told| [CIFAR10, IMAGENET].contains(told));
        if matches!(taken, Some(Ok(_))) && (told.is_none() || named.is_some()) {
            let preset = Preset::of(model, named.or(benchmark));
            settings.extend(table(self.name, &BTreeMap::from([(PRESET, preset)]))?);
        }
        Ok(settings)
    }
}

/// The setting that names where the others come from.
const PRESET: &str = "preset";

/// Every method.
pub const METHODS: &[MethodEntry] = &[
    source::ENTRY,
    bn_adapt::ENTRY,
    tent::ENTRY,
    eata::ENTRY_ETA,
    eata::ENTRY_EATA,
    sar::ENTRY,
    cpl::ENTRY,
    cotta::ENTRY,
    rmt::ENTRY,
    santa::ENTRY,
    vdp::ENTRY,
    paint::ENTRY,
];

/// The row of a name.
pub fn by_name(name: &str) -> Result<&'static MethodEntry> {
    METHODS.iter().find(|entry| entry.name == name).ok_or_else(|| Error::UnknownMethod {
        name: name.to_owned(),
        known: METHODS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

/// Reads a method's settings.
pub(crate) fn parse<T: DeserializeOwned>(
    method: &'static str,
    settings: &toml::Table,
) -> Result<T> {
    settings
        .clone()
        .try_into()
        .map_err(|error| Error::Config { method, why: error.to_string().trim().to_owned() })
}

/// Writes a method's settings.
pub(crate) fn table<T: Serialize>(method: &'static str, config: &T) -> Result<toml::Table> {
    toml::Table::try_from(config).map_err(|error| Error::Config { method, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::{self, BuildOptions, Weights};
    use paint_tensor::Device;
    use toml::toml;

    use super::*;

    #[test]
    fn an_unknown_method_lists_the_known_ones() {
        let message = by_name("sourse").map(|entry| entry.name).unwrap_err().to_string();
        assert!(message.starts_with("unknown method \"sourse\": known are source"), "{message}");
    }

    #[test]
    fn a_benchmark_decides_the_preset_with_the_kind_of_the_network() {
        let options = BuildOptions::new(&Device::cpu());
        for (backbone, kind) in [("vit_tiny_patch16_224", "vit"), ("cifar_resnet20", "cnn")] {
            let weights = Weights::Random(Seed(0));
            let model = backbone::find(backbone).unwrap().build(weights, &options).unwrap();
            let (entry, nothing) = (by_name("eata").unwrap(), toml::Table::new());
            let preset = |settings: &toml::Table, benchmark| {
                let fitted = entry.fit(settings, &*model, benchmark).unwrap();
                entry.resolve(&fitted).unwrap()["preset"].as_str().unwrap().to_owned()
            };
            for benchmark in [CIFAR10, IMAGENET] {
                let expected = format!("{kind}_{benchmark}");
                assert_eq!(preset(&nothing, Some(benchmark)), expected);
                for met in [None, Some(CIFAR10), Some(IMAGENET)] {
                    assert_eq!(preset(&toml! { preset = benchmark }, met), expected);
                }
            }
            assert_eq!(preset(&toml! { preset = "cnn_cifar10" }, Some(IMAGENET)), "cnn_cifar10");
        }
    }

    #[test]
    fn a_baseline_takes_the_preset_of_its_network_unless_it_is_told_one() {
        let options = BuildOptions::new(&Device::cpu());
        for (backbone, expected) in [
            ("vit_tiny_patch4_32", "vit_cifar10"),
            ("vit_tiny_patch16_224", "vit_imagenet"),
            ("cifar_resnet20", "cnn_cifar10"),
            ("resnet18", "cnn_imagenet"),
        ] {
            let weights = Weights::Random(Seed(0));
            let model = backbone::find(backbone).unwrap().build(weights, &options).unwrap();
            let resolve = |name: &str, settings: &toml::Table| {
                let entry = by_name(name).unwrap();
                entry.resolve(&entry.fit(settings, &*model, None).unwrap()).unwrap()
            };
            let told = toml! { preset = "cnn_imagenet" };
            for entry in METHODS.iter().filter(|entry| !["source", "paint"].contains(&entry.name)) {
                let chosen = resolve(entry.name, &toml::Table::new());
                assert_eq!(chosen["preset"].as_str(), Some(expected), "{}", entry.name);
                let named = toml! { preset = expected };
                assert_eq!(chosen, entry.resolve(&named).unwrap(), "{}", entry.name);
                assert_eq!(resolve(entry.name, &told), entry.resolve(&told).unwrap());
            }
            let rate = resolve("cotta", &toml! { lr = 0.5 });
            assert_eq!(
                (rate["lr"].as_float(), rate["preset"].as_str()),
                (Some(0.5), Some(expected))
            );
            for name in ["source", "paint"] {
                let settings = by_name(name).unwrap().resolve(&toml::Table::new()).unwrap();
                assert_eq!(resolve(name, &toml::Table::new()), settings, "{name}");
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = METHODS.iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METHODS.len());
    }
}
