//! The settings of a row in a few words: the preset, and what differs from it.

use std::collections::BTreeMap;
use std::fmt;

use paint_methods::{PRESET, Registry};
use serde_json::Value;

/// The name of some settings, such as `paper_adam, eta=0.4`. Nothing is printed for a method without settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Named {
    /// The preset.
    pub preset: Option<String>,
    /// By dotted key, every value that is not the preset's.
    pub changed: BTreeMap<String, Value>,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = changes(&self.changed);
        let parts = [self.preset.as_deref().unwrap_or_default(), &changes];
        f.write_str(
            &parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "),
        )
    }
}

/// Changed settings as `--set` takes them.
pub(super) fn changes(changed: &BTreeMap<String, Value>) -> String {
    let change = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    };
    changed.iter().map(change).collect::<Vec<_>>().join(", ")
}

/// The name of a method's settings, every one of which is given.
pub fn named(methods: &Registry, method: &str, settings: &Value) -> Named {
    let preset = settings.get(PRESET).and_then(Value::as_str);
    let given = preset.map(|preset| (PRESET.to_owned(), toml::Value::from(preset)));
    let given = toml::Table::from_iter(given);
    let usual = methods.find(method).and_then(|entry| entry.resolve(&given));
    // The settings of a method that this program does not have are known by their preset alone.
    let changed = usual.map_or_else(
        |_| BTreeMap::new(),
        |usual| {
            let (mut changed, mut known) = (BTreeMap::new(), BTreeMap::new());
            leaves("", settings, &mut changed);
            leaves("", &serde_json::json!(usual), &mut known);
            changed.retain(|key, value| known.get(key) != Some(value));
            changed
        },
    );
    Named { preset: preset.map(Into::into), changed }
}

/// The values of nested settings by dotted key.
fn leaves(place: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    if let Value::Object(parts) = value {
        for (key, part) in parts {
            let dot = if place.is_empty() { "" } else { "." };
            leaves(&format!("{place}{dot}{key}"), part, into);
        }
    } else {
        into.insert(place.into(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(method: &str, settings: &str) -> String {
        let methods = Registry::default();
        let settings = methods.find(method).unwrap().resolve(&settings.parse().unwrap()).unwrap();
        named(&methods, method, &serde_json::json!(settings)).to_string()
    }

    #[test]
    fn settings_are_called_by_their_preset_and_what_differs_from_it() {
        assert_eq!(name("paint", ""), "paper_adam");
        assert_eq!(name("paint", "preset = 'reference'"), "reference");
        let demo = "preset = 'paper_adam'\nlr_blocks = 2e-4\neta = 0.4";
        assert_eq!(name("paint", demo), "paper_adam, eta=0.4, lr_blocks=0.0002");
        assert_eq!(name("paint", "loss = 'double_softmax'"), "paper_adam, loss=double_softmax");
        assert_eq!(name("rmt", "contrast = { width = 64 }"), "vit_imagenet, contrast.width=64");
        assert_eq!(name("source", ""), "");
    }

    #[test]
    fn a_method_of_somebody_else_is_called_by_its_preset() {
        let settings = serde_json::json!({"preset": "theirs", "lr": 1.0});
        assert_eq!(named(&Registry::default(), "elsewhere", &settings).to_string(), "theirs");
    }
}
