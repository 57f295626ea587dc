//! A method's settings: read from TOML, checked, and written out with every default.

use paint_settings::{Describe, OutOfRange, check_fields};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The settings of one method, typed: a field for each key. [`configs`](crate::configs) has those of this crate.
///
/// A type of your own needs no more than a name, if serde fills in what is not given and refuses what it does not know:
///
/// ```
/// use paint_methods::settings::Settings;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Default, Serialize, Deserialize)]
/// #[serde(default, deny_unknown_fields)]
/// struct Mine {
///     strength: f64,
/// }
///
/// impl Settings for Mine {
///     const METHOD: &'static str = "mine";
/// }
///
/// # fn main() -> paint_methods::Result<()> {
/// let mine = Mine::read(&toml::toml! { strength = 0.5 })?;
/// assert_eq!(mine.table()?["strength"].as_float(), Some(0.5));
/// # Ok(())
/// # }
/// ```
pub trait Settings: Serialize + DeserializeOwned + Default {
    /// The method's name.
    const METHOD: &'static str;

    /// Reads settings and checks them. Keys that are not given have their default, or the value of the preset that is
    /// named.
    fn read(settings: &toml::Table) -> Result<Self> {
        parse(Self::METHOD, settings)
    }

    /// Every setting under its key.
    fn table(&self) -> Result<toml::Table> {
        table(Self::METHOD, self)
    }
}

/// Reads a method's settings; a key that `T` does not have is an error that names it, if `T` denies unknown fields.
/// `method` names the method in error messages.
pub fn parse<T: DeserializeOwned>(method: &'static str, settings: &toml::Table) -> Result<T> {
    paint_settings::read(settings.clone())
        .map_err(|misread| Error::Config { method, why: misread.to_string() })
}

/// Writes a method's settings.
pub fn table<T: Serialize>(method: &'static str, config: &T) -> Result<toml::Table> {
    toml::Table::try_from(config).map_err(|error| Error::Config { method, why: error.to_string() })
}

/// The settings of a method: those given, the rest from the preset they name. A value outside its range is an error.
pub(crate) fn read<T, P>(
    method: &'static str,
    settings: &toml::Table,
    preset: impl Fn(P) -> T,
) -> Result<T>
where
    T: Serialize + DeserializeOwned + Describe,
    P: Default + DeserializeOwned,
{
    read_with(method, settings, preset, |_| Vec::new())
}

/// The same for settings that depend on each other: `rules` says for each condition whether it holds, and what to
/// report if it does not.
pub(crate) fn read_with<T, P>(
    method: &'static str,
    settings: &toml::Table,
    preset: impl Fn(P) -> T,
    rules: impl Fn(&T) -> Vec<(bool, &'static str)>,
) -> Result<T>
where
    T: Serialize + DeserializeOwned + Describe,
    P: Default + DeserializeOwned,
{
    #[derive(Deserialize)]
    struct Chosen<P: Default> {
        #[serde(default)]
        preset: P,
    }
    let chosen: Chosen<P> = parse(method, settings)?;
    let mut merged = table(method, &preset(chosen.preset))?;
    merged.extend(settings.clone());
    let config = parse(method, &merged)?;
    let refuse = |out: OutOfRange| Error::Config { method, why: out.to_string() };
    check_fields(&config).map_err(refuse)?;
    match rules(&config).into_iter().find(|(holds, _)| !holds) {
        Some((_, why)) => Err(Error::Config { method, why: why.to_owned() }),
        None => Ok(config),
    }
}

#[cfg(test)]
mod tests {
    use paint_settings::{at_least, settings};
    use toml::toml;

    use super::*;
    use crate::preset::Preset;

    settings! {
        /// The settings.
        struct Config {
            preset: Preset,
            #[within(at_least(0.0))]
            lr: f64,
        }
    }

    fn lr(settings: &toml::Table) -> Result<f64> {
        let preset = |preset: Preset| Config { preset, lr: f64::from(u8::from(preset.is_cifar())) };
        Ok(read_with("test", settings, preset, |c| vec![(c.lr < 9.0, "lr is too high")])?.lr)
    }

    #[test]
    fn a_value_that_is_not_given_comes_from_the_preset() {
        assert_eq!(lr(&toml! { preset = "cnn_cifar10" }).unwrap(), 1.0);
        assert_eq!(lr(&toml::Table::new()).unwrap(), 0.0);
        assert_eq!(lr(&toml! { preset = "cnn_cifar10" lr = 0.5 }).unwrap(), 0.5);
    }

    #[test]
    fn a_broken_rule_and_an_unknown_preset_are_reported() {
        assert_eq!(
            lr(&toml! { lr = 10.0 }).unwrap_err().to_string(),
            "settings of test: lr is too high"
        );
        assert_eq!(
            lr(&toml! { lr = (-1.0) }).unwrap_err().to_string(),
            "settings of test: lr: expected 0 or more, got -1.0"
        );
        let message = lr(&toml! { preset = "resnet" }).unwrap_err().to_string();
        assert!(message.contains("vit_cifar10"), "{message}");
    }
}
