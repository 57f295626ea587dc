//! What was typed: a file, then flags, then `--set`; the later wins.

use std::path::Path;

use paint_data::dataset;
use paint_settings::read;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{Config, Model};
use crate::{Error, Result};

/// The most parts of a dotted key; the deepest that means anything, `probe.data.options.classes`, has four.
const DEEPEST: usize = 8;

/// A document that may still lack keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft(Table);

impl Draft {
    /// The document in a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = paint_files::read_text(path).map_err(|source| Error::Io {
            action: "read",
            source,
            path: path.to_owned(),
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// The document in `text`; `origin` names it in messages.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let parse = |error: toml::de::Error| Error::config(format!("{origin}: {error}"));
        text.parse().map(Self).map_err(parse)
    }

    /// What stands at a dotted key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    }

    /// Puts `value` at a dotted key, in place of what is there.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        let mut table = &mut self.0;
        let mut parts: Vec<&str> = key.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(Error::config(format!("expected a key such as method.eta, got {key:?}")));
        }
        if parts.len() > DEEPEST {
            let (count, first) = (parts.len(), parts[0]);
            return Err(Error::config(format!(
                "expected a key of at most {DEEPEST} parts, got one of {count} that begins with {first:?}"
            )));
        }
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            let inner = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = inner else {
                return Err(Error::config(format!("{key:?}: {part:?} holds a value, not a table")));
            };
            table = inner;
        }
        table.insert(last.into(), value.into());
        Ok(())
    }

    /// Applies `key.path=value`; a value that is no TOML is a string, so that `--set method.preset=paper` needs no
    /// quotes.
    pub fn set_assignment(&mut self, assignment: &str) -> Result<()> {
        let Some((key, text)) = assignment.split_once('=') else {
            return Err(Error::config(format!("expected KEY=VALUE, got {assignment:?}")));
        };
        let value = match format!("value = {text}").parse::<Table>() {
            Ok(mut table) if table.len() == 1 => table.remove("value"),
            _ => None,
        };
        self.set(key.trim(), value.unwrap_or_else(|| Value::from(text)))
    }

    /// The document as it stands.
    pub fn text(&self) -> Result<String> {
        toml::to_string(&self.0).map_err(|error| Error::config(error.to_string()))
    }

    /// The run that is meant; says which key is missing or unknown.
    pub fn resolve(&self) -> Result<Config> {
        let config: Config = self.resolve_as()?;
        let Model { weights, tag, .. } = &config.model;
        if weights.as_os_str().is_empty() {
            return Err(Error::config("missing key model.weights: the file of weights"));
        }
        if !tag.is_empty() {
            return Err(Error::config(
                "model.tag belongs into a protocol: a run has model.weights",
            ));
        }
        Ok(config)
    }

    /// The images alone, where nothing else is given; says which key is missing or unknown.
    pub fn resolve_data(&self) -> Result<dataset::Config> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Images {
            data: dataset::Config,
        }
        self.resolve_as().map(|Images { data }| data)
    }

    /// One table of the document alone.
    pub(crate) fn resolve_part<T: DeserializeOwned>(&self, table: &str) -> Result<T> {
        let part = match self.get(table) {
            Some(Value::Table(part)) => part.clone(),
            None => Table::new(),
            Some(other) => {
                return Err(Error::config(format!("{table}: expected a table, found {other}")));
            }
        };
        read(part).map_err(|misread| Error::config(misread.below(table).to_string()))
    }

    /// The document that is meant, where it is no run.
    pub fn resolve_as<T: DeserializeOwned>(&self) -> Result<T> {
        // The key says where: values may have come from several places, and a file is only one of them.
        read(self.0.clone()).map_err(|misread| Error::config(misread.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::TEXT, *};

    #[test]
    fn assignments_parse_as_toml_and_fall_back_to_text() {
        let mut draft = Draft::parse(TEXT, "run.toml").unwrap();
        for assignment in [
            "method.eta=0.25",
            "method.preset=reference",
            "scenario.domains=[\"fog\", \"snow\"]",
            "seed=7",
            "method.note=a = b",
        ] {
            draft.set_assignment(assignment).unwrap();
        }
        let config = draft.resolve().unwrap();
        assert_eq!(config.method.settings["eta"].as_float(), Some(0.25));
        assert_eq!(config.method.settings["preset"].as_str(), Some("reference"));
        assert_eq!(config.method.settings["note"].as_str(), Some("a = b"));
        assert_eq!(config.scenario.domains, Some(vec!["fog".into(), "snow".into()]));
        assert_eq!(config.seed, 7);
    }

    #[test]
    fn a_value_of_another_type_is_told_by_its_key() {
        for (assignment, told) in [
            (
                "stream.buffer=many",
                "stream.buffer: expected a non-negative whole number, found \"many\"",
            ),
            (
                "scenario.batch_size=0.5",
                "scenario.batch_size: expected a non-negative whole number, found 0.5",
            ),
            ("guard=on", "guard: expected a table, found \"on\""),
            ("model.crop_pct=true", "model.crop_pct: expected a number, found true"),
            ("data.options.classes=cat", "data.options.classes: expected a list, found \"cat\""),
        ] {
            let mut draft = Draft::parse(TEXT, "run.toml").unwrap();
            draft.set_assignment(assignment).unwrap();
            let error = draft.resolve().unwrap_err();
            assert!(error.is_usage());
            assert_eq!(error.to_string(), format!("configuration: {told}"));
        }
        let draft = Draft::parse("[model]\nnum_heads = 'x'", "run.toml").unwrap();
        let error = draft.resolve_part::<Model>("model").unwrap_err().to_string();
        assert!(error.contains("model.num_heads: expected a non-negative whole number"), "{error}");
    }

    #[test]
    fn a_bad_assignment_or_a_missing_key_is_told() {
        let mut draft = Draft::parse(TEXT, "run.toml").unwrap();
        assert!(draft.set_assignment("method.eta").is_err());
        assert!(draft.set_assignment("method..eta=1").is_err());
        let deep = draft.set_assignment(&format!("{}=1", ["a"; 9].join("."))).unwrap_err();
        assert!(deep.to_string().contains("at most 8 parts, got one of 9"), "{deep}");
        let error = draft.set_assignment("out.folder=1").unwrap_err().to_string();
        assert!(error.contains("\"out\" holds a value"), "{error}");
        let error = Draft::parse("out = \"o\"", "x").unwrap().resolve().unwrap_err().to_string();
        assert!(error.contains("missing field `model`"), "{error}");
        let tagged = Draft::parse(&TEXT.replace("weights", "tag"), "run.toml").unwrap();
        let error = tagged.resolve().unwrap_err().to_string();
        assert!(error.contains("model.weights"), "{error}");
        draft.set("model.tag", "vit").unwrap();
        let error = draft.resolve().unwrap_err().to_string();
        assert!(error.contains("model.tag belongs into a protocol"), "{error}");
        let error = Draft::parse("out = ", "run.toml").unwrap_err().to_string();
        assert!(error.contains("run.toml"), "{error}");
    }
}
