//! A method's settings: read from TOML, checked, and written out with every default.

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
    settings
        .clone()
        .try_into()
        .map_err(|error| Error::Config { method, why: error.to_string().trim().to_owned() })
}

/// Writes a method's settings.
pub fn table<T: Serialize>(method: &'static str, config: &T) -> Result<toml::Table> {
    toml::Table::try_from(config).map_err(|error| Error::Config { method, why: error.to_string() })
}

/// The settings of a method: those given, the rest from the preset they name. `rules` says for each condition whether
/// it holds, and what to report if it does not.
pub(crate) fn read<T, P>(
    method: &'static str,
    settings: &toml::Table,
    preset: impl Fn(P) -> T,
    rules: impl Fn(&T) -> Vec<(bool, &'static str)>,
) -> Result<T>
where
    T: Serialize + DeserializeOwned,
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
    match rules(&config).into_iter().find(|(holds, _)| !holds) {
        Some((_, why)) => Err(Error::Config { method, why: why.to_owned() }),
        None => Ok(config),
    }
}

/// Whether a rate, weight or margin is finite and 0 or more.
pub(crate) fn not_negative(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// Whether a share lies in [0, 1].
pub(crate) fn is_share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

#[cfg(test)]
mod tests {
    use toml::toml;

    use super::*;
    use crate::preset::Preset;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        preset: Preset,
        lr: f64,
    }

    fn lr(settings: &toml::Table) -> Result<f64> {
        let preset = |preset: Preset| Config { preset, lr: f64::from(u8::from(preset.is_cifar())) };
        Ok(read("test", settings, preset, |c| vec![(c.lr < 9.0, "lr is too high")])?.lr)
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
        let message = lr(&toml! { preset = "resnet" }).unwrap_err().to_string();
        assert!(message.contains("vit_cifar10"), "{message}");
    }
}
