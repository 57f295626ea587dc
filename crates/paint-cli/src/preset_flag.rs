//! `--preset` and `--tuned`: settings that `paint tune` chose, as `run`, `bench`, `adapt` and `serve` take them.

use std::path::PathBuf;

use paint_bench::Protocol;
use paint_bench::grid::Variant;
use paint_bench::tune::Preset;
use paint_methods::Registry;
use paint_run::{Draft, Error};

use crate::Usage;

/// Files of settings.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PresetFlag {
    /// Take a method's settings from a file of `paint tune`, under those of --set; can be repeated for several methods
    #[arg(id = "preset", long = "preset", value_name = "FILE")]
    paths: Vec<PathBuf>,
}

/// Files of settings for rows beside the usual ones.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TunedFlag {
    /// Add a row with the settings of a file of `paint tune`, before the method's usual row; can be repeated for
    /// several methods; --set changes the usual row alone
    #[arg(id = "tuned", long = "tuned", value_name = "FILE")]
    paths: Vec<PathBuf>,
}

impl TunedFlag {
    /// Adds a row for each file, before the usual row of its method or the first one: the last row, which the others
    /// are compared with, stays.
    pub(crate) fn add_rows(&self, variants: &mut Vec<Variant>) -> paint_run::Result<()> {
        for Preset { method, settings, .. } in read(&self.paths)? {
            let usual = variants.iter().position(|variant| variant.label == method);
            variants.insert(
                usual.unwrap_or(0),
                Variant::with(&format!("{method}, tuned"), &method, settings),
            );
        }
        Ok(())
    }

    /// Says which settings were chosen for other weights than these.
    pub(crate) fn warn_of_other_weights(&self, sha256: Option<&str>) -> paint_run::Result<()> {
        warn_of_other_weights("tuned", &self.paths, sha256)
    }

    /// The files, as flags, without their place.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        names(&self.paths)
    }
}

/// The files; one whose method or settings are unknown is named.
fn read(paths: &[PathBuf]) -> paint_run::Result<Vec<Preset>> {
    let methods = Registry::default();
    let read = |path: &PathBuf| {
        let preset = Preset::read(path)?;
        let resolved = methods.find(&preset.method).and_then(|row| row.resolve(&preset.settings));
        match resolved {
            Ok(_) => Ok(preset),
            Err(error) => Err(Error::config(format!("{}: {error}", path.display()))),
        }
    };
    paths.iter().map(read).collect()
}

fn names(paths: &[PathBuf]) -> impl Iterator<Item = String> {
    paths.iter().map(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    })
}

fn warn_of_other_weights(
    flag: &str,
    paths: &[PathBuf],
    sha256: Option<&str>,
) -> paint_run::Result<()> {
    for (preset, path) in read(paths)?.into_iter().zip(paths) {
        let chosen_for = preset.weights_sha256.as_deref();
        if chosen_for.is_some() && sha256.is_some() && chosen_for != sha256 {
            warning!("--{flag} {} was chosen for other weights", path.display());
        }
    }
    Ok(())
}

impl PresetFlag {
    /// Puts the settings of the one method that runs into a document. Without a method, the file decides which one
    /// runs, or else `usual`.
    pub(crate) fn apply(&self, draft: &mut Draft, usual: Option<&str>) -> anyhow::Result<()> {
        let presets = read(&self.paths)?;
        let given = draft.get("method.name").and_then(|name| name.as_str()).map(str::to_owned);
        let method = match (given, &presets[..]) {
            (Some(given), _) => given,
            (None, [preset]) => preset.method.clone(),
            (None, []) => match usual {
                Some(usual) => usual.to_owned(),
                None => return Ok(()),
            },
            (None, _) => return Err(Usage("--preset: give --method, or one file".into()).into()),
        };
        draft.set("method.name", method.as_str())?;
        for (preset, path) in presets.into_iter().zip(&self.paths) {
            if preset.method == method {
                for (key, value) in preset.settings {
                    draft.set(&format!("method.{key}"), value)?;
                }
            } else {
                let (path, other) = (path.display(), preset.method);
                warning!("--preset {path} changes nothing: {other} does not run here");
            }
        }
        Ok(())
    }

    /// Puts the settings of every file into a protocol.
    pub(crate) fn apply_to_protocol(&self, protocol: &mut Protocol) -> paint_run::Result<()> {
        for preset in read(&self.paths)? {
            protocol.settings.insert(preset.method, preset.settings);
        }
        Ok(())
    }

    /// Says which settings were chosen for other weights than these.
    pub(crate) fn warn_of_other_weights(&self, sha256: Option<&str>) -> paint_run::Result<()> {
        warn_of_other_weights("preset", &self.paths, sha256)
    }

    /// The files, as flags, without their place.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        names(&self.paths)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toml::toml;

    use super::*;

    fn write(folder: &Path, method: &str) -> PathBuf {
        let path = folder.join(format!("{method}.toml"));
        let (settings, evidence) = (toml! { lr = 0.5 }, toml::Table::new());
        let preset = Preset { method: method.into(), weights_sha256: None, settings, evidence };
        preset.write(&path).unwrap();
        path
    }

    fn applied(
        given: Option<&str>,
        methods: &[&str],
        usual: Option<&str>,
    ) -> anyhow::Result<Draft> {
        let folder = tempfile::tempdir().unwrap();
        let paths = methods.iter().map(|method| write(folder.path(), method)).collect();
        let flag = PresetFlag { paths };
        let mut draft = Draft::default();
        if let Some(given) = given {
            draft.set("method.name", given)?;
        }
        flag.apply(&mut draft, usual).map(|()| draft)
    }

    #[test]
    fn a_file_chooses_the_method_unless_one_is_given() {
        let method = |draft: &Draft| {
            let name = draft.get("method.name").and_then(|name| name.as_str());
            (name.map(str::to_owned), draft.get("method.lr").is_some())
        };
        let case = |given, files: &[&str], usual| method(&applied(given, files, usual).unwrap());
        assert_eq!(case(None, &["tent"], Some("paint")), (Some("tent".into()), true));
        assert_eq!(case(Some("sar"), &["tent", "sar"], None), (Some("sar".into()), true));
        assert_eq!(case(Some("sar"), &["tent"], None), (Some("sar".into()), false));
        assert_eq!(case(None, &[], Some("paint")), (Some("paint".into()), false));
        assert_eq!(case(None, &[], None), (None, false));
        let error = applied(None, &["tent", "sar"], Some("paint")).unwrap_err().to_string();
        assert!(error.contains("give --method"), "{error}");
    }

    #[test]
    fn a_tuned_row_stands_before_the_usual_one_of_its_method() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["tent", "sar"].map(|method| write(folder.path(), method)).into();
        let mut variants = ["source", "tent", "eta"].map(Variant::plain).to_vec();
        TunedFlag { paths }.add_rows(&mut variants).unwrap();
        let labels: Vec<&str> = variants.iter().map(|variant| variant.label.as_str()).collect();
        assert_eq!(labels, ["sar, tuned", "source", "tent, tuned", "tent", "eta"]);
        assert_eq!(variants[2].method, "tent");
        assert_eq!(variants[2].settings, toml! { lr = 0.5 });
        assert!(variants[3].settings.is_empty());
    }
}
