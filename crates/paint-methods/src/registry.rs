//! Which methods a program knows by name.

use std::borrow::Cow;

use crate::entry::MethodEntry;
use crate::methods::METHODS;
use crate::{Error, Result};

/// The methods that names are looked up among: those of this crate, and any that a caller adds.
///
/// There is no global list: whoever looks names up is given a registry, and [`Registry::default`] has every row of
/// [`METHODS`]. A method of your own takes part wherever a registry is taken:
///
/// ```
/// use paint_methods::{MethodEntry, Registry, by_name};
///
/// # fn main() -> paint_methods::Result<()> {
/// // A row for what `source` does, under another name.
/// const MINE: MethodEntry = MethodEntry::new(
///     "mine",
///     |args, settings| by_name("source")?.build(args, settings),
///     |settings| by_name("source")?.resolve(settings),
/// )
/// .what("leaves the source model as it is");
///
/// let methods = Registry::default().with(MINE)?;
/// assert_eq!(methods.find("mine")?.what, "leaves the source model as it is");
/// assert!(methods.find("tent").is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    rows: Cow<'static, [MethodEntry]>,
}

impl Default for Registry {
    /// Every method of this crate.
    fn default() -> Self {
        Self { rows: Cow::Borrowed(METHODS) }
    }
}

impl Registry {
    /// The registry with one more row, after the others. A name is lower-case letters, digits and underscores, because
    /// it is also a key in TOML and part of file names; one that is taken is refused.
    pub fn with(mut self, entry: MethodEntry) -> Result<Self> {
        let refuse =
            |why: &str| Error::Register { name: entry.name.to_owned(), why: why.to_owned() };
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !entry.name.starts_with(|c: char| c.is_ascii_lowercase())
            || !entry.name.chars().all(is_plain)
        {
            return Err(refuse("a name is lower-case letters, digits and _, a letter first"));
        }
        if self.rows.iter().any(|row| row.name == entry.name) {
            return Err(refuse("the name is taken"));
        }
        self.rows.to_mut().push(entry);
        Ok(self)
    }

    /// All rows, in the order of reports.
    pub fn rows(&self) -> &[MethodEntry] {
        &self.rows
    }

    /// The row of a name.
    pub fn find(&self, name: &str) -> Result<&MethodEntry> {
        find(&self.rows, name)
    }
}

/// The row of a name among [`METHODS`].
pub fn by_name(name: &str) -> Result<&'static MethodEntry> {
    find(METHODS, name)
}

fn find<'a>(rows: &'a [MethodEntry], name: &str) -> Result<&'a MethodEntry> {
    rows.iter().find(|entry| entry.name == name).ok_or_else(|| Error::UnknownMethod {
        name: name.to_owned(),
        known: rows.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::{self, BuildOptions, Family, Weights};
    use paint_rng::Seed;
    use paint_tensor::Device;
    use toml::toml;

    use super::*;
    use crate::entry::{Networks, Presets};
    use crate::preset::Benchmark;

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
                let fitted = entry.settings_for(settings, &*model, benchmark).unwrap();
                entry.resolve(&fitted).unwrap()["preset"].as_str().unwrap().to_owned()
            };
            let [cifar10, imagenet] = Benchmark::ALL.map(Benchmark::name);
            for benchmark in [cifar10, imagenet] {
                let expected = format!("{kind}_{benchmark}");
                assert_eq!(preset(&nothing, Some(benchmark)), expected);
                for met in [None, Some(cifar10), Some(imagenet)] {
                    assert_eq!(preset(&toml! { preset = benchmark }, met), expected);
                }
            }
            assert_eq!(preset(&toml! { preset = "cnn_cifar10" }, Some(imagenet)), "cnn_cifar10");
        }
    }

    #[test]
    fn a_baseline_takes_the_preset_of_its_network_unless_one_is_given() {
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
                entry.resolve(&entry.settings_for(settings, &*model, None).unwrap()).unwrap()
            };
            let given = toml! { preset = "cnn_imagenet" };
            let is_taken = |entry: &&MethodEntry| {
                entry.runs_on != Networks::Convolutional || model.family() == Family::Convolutional
            };
            let by_network = METHODS.iter().filter(|entry| entry.presets == Presets::ByNetwork);
            for entry in by_network.filter(is_taken) {
                let chosen = resolve(entry.name, &toml::Table::new());
                assert_eq!(chosen["preset"].as_str(), Some(expected), "{}", entry.name);
                let named = toml! { preset = expected };
                assert_eq!(chosen, entry.resolve(&named).unwrap(), "{}", entry.name);
                assert_eq!(resolve(entry.name, &given), entry.resolve(&given).unwrap());
            }
            let rate = resolve("cotta", &toml! { lr = 0.5 });
            assert_eq!(
                (rate["lr"].as_float(), rate["preset"].as_str()),
                (Some(0.5), Some(expected))
            );
            for entry in METHODS.iter().filter(|entry| entry.presets != Presets::ByNetwork) {
                let settings = entry.resolve(&toml::Table::new()).unwrap();
                assert_eq!(resolve(entry.name, &toml::Table::new()), settings, "{}", entry.name);
            }
        }
    }

    #[test]
    fn every_row_of_the_table_could_join_a_registry() {
        let empty = Registry { rows: Cow::Borrowed(&[]) };
        let all = METHODS.iter().try_fold(empty, |registry, row| registry.with(*row)).unwrap();
        assert_eq!(all.rows().len(), METHODS.len());
    }

    #[test]
    fn a_row_from_outside_is_found_beside_the_others_and_changes_no_other_registry() {
        let row = MethodEntry::new("mine", METHODS[0].build, METHODS[0].resolve);
        let methods = Registry::default().with(row).unwrap();
        assert_eq!(methods.rows().len(), METHODS.len() + 1);
        assert_eq!(methods.find("mine").unwrap().name, "mine");
        assert_eq!(methods.find("paint").unwrap().name, "paint");
        let message = methods.find("mien").unwrap_err().to_string();
        assert!(message.ends_with("paint, mine"), "{message}");
        assert!(Registry::default().find("mine").is_err());
    }

    #[test]
    fn a_name_that_is_taken_or_no_key_of_toml_is_refused() {
        for (name, why) in [
            ("tent", "the name is taken"),
            ("", "a letter first"),
            ("2tent", "a letter first"),
            ("my method", "a letter first"),
            ("My", "a letter first"),
            ("../x", "a letter first"),
        ] {
            let row = MethodEntry::new(name, METHODS[0].build, METHODS[0].resolve);
            let message = Registry::default().with(row).unwrap_err().to_string();
            assert!(message.starts_with(&format!("cannot register method {name:?}: ")));
            assert!(message.ends_with(why), "{message}");
        }
    }

    #[test]
    fn the_names_of_presets_are_those_that_settings_take() {
        for entry in METHODS {
            for &name in entry.presets.names() {
                let resolved = entry.resolve(&toml! { preset = name }).unwrap();
                assert_eq!(resolved["preset"].as_str(), Some(name), "{}", entry.name);
            }
            let refused = entry.resolve(&toml! { preset = "?" }).unwrap_err().to_string();
            let listed = refused.matches('`').count() / 2;
            let names = entry.presets.names();
            assert!(names.iter().all(|name| refused.contains(&format!("`{name}`"))), "{refused}");
            assert!(names.is_empty() || listed >= names.len(), "{refused}");
        }
    }
}
