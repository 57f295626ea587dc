//! `--preset`: settings that `paint tune` chose, as `run`, `bench`, `adapt` and `serve` take them.

use std::path::PathBuf;

use paint_bench::Protocol;
use paint_bench::tune::Preset;
use paint_run::Draft;

use crate::Usage;

/// Files of settings.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PresetFlag {
    /// Take a method's settings from a file of `paint tune`, under those of --set; can be repeated for several methods
    #[arg(id = "preset", long = "preset", value_name = "FILE")]
    paths: Vec<PathBuf>,
}

impl PresetFlag {
    fn read(&self) -> paint_run::Result<Vec<Preset>> {
        self.paths.iter().map(|path| Preset::read(path)).collect()
    }

    /// Puts the settings of the one method that runs into a document. Without a method, the file decides which one
    /// runs, or else `usual`.
    pub(crate) fn apply(&self, draft: &mut Draft, usual: Option<&str>) -> anyhow::Result<()> {
        let presets = self.read()?;
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
        for preset in self.read()? {
            protocol.settings.insert(preset.method, preset.settings);
        }
        Ok(())
    }

    /// Says which settings were chosen for other weights than these.
    pub(crate) fn warn_of_other_weights(&self, sha256: Option<&str>) -> paint_run::Result<()> {
        for (preset, path) in self.read()?.into_iter().zip(&self.paths) {
            let chosen_for = preset.weights_sha256.as_deref();
            if chosen_for.is_some() && sha256.is_some() && chosen_for != sha256 {
                warning!("--preset {} was chosen for other weights", path.display());
            }
        }
        Ok(())
    }

    /// The files, as flags, without their place.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        self.paths.iter().map(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use toml::toml;

    use super::*;

    fn applied(
        given: Option<&str>,
        methods: &[&str],
        usual: Option<&str>,
    ) -> anyhow::Result<Draft> {
        let folder = tempfile::tempdir().unwrap();
        let write = |method: &&str| {
            let path = folder.path().join(format!("{method}.toml"));
            let settings = toml! { lr = 0.5 };
            let (method, evidence) = ((*method).into(), toml::Table::new());
            Preset { method, weights_sha256: None, settings, evidence }.write(&path).unwrap();
            path
        };
        let flag = PresetFlag { paths: methods.iter().map(write).collect() };
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
}
