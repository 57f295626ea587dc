//! Every method × preset as `presets.toml` has it, with the source of each value.

#![expect(clippy::unwrap_used, reason = "a preset that does not resolve fails its test")]

use std::collections::BTreeSet;

use paint_methods::{METHODS, MethodEntry};
use toml::{Table, toml};

/// Each preset of a method by name, and its settings with every default; one without a name for a method that has none.
fn presets(entry: &MethodEntry) -> Vec<(Option<&'static str>, Table)> {
    let resolve = |preset: Option<&'static str>| {
        let settings = preset.map_or_else(Table::new, |name| toml! { preset = name });
        let mut resolved = entry.resolve(&settings).unwrap();
        resolved.remove("preset");
        (preset, resolved)
    };
    match entry.presets.names() {
        [] => vec![resolve(None)],
        names => names.iter().map(|&name| resolve(Some(name))).collect(),
    }
}

#[test]
fn every_preset_has_the_values_of_the_file() {
    for entry in METHODS {
        for (preset, resolved) in presets(entry) {
            let lines = entry.preset_values(preset).into_iter();
            let text: Vec<String> =
                lines.map(|line| format!("{} = {}", line.key, line.value)).collect();
            let listed: Table = text.join("\n").parse().unwrap();
            assert_eq!(listed, resolved, "presets.toml, [{}.{preset:?}]", entry.name);
        }
    }
}

#[test]
fn every_value_names_its_source() {
    for entry in METHODS {
        for (preset, _) in presets(entry) {
            for line in entry.preset_values(preset) {
                let words = line.source.split_whitespace().count();
                assert!(words > 0, "presets.toml, [{}.{preset:?}]: {}", entry.name, line.key);
            }
        }
    }
}

#[test]
fn the_file_has_a_section_for_every_preset_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/presets.toml");
    let file: Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let found: BTreeSet<(String, String)> = file
        .iter()
        .flat_map(|(method, sections)| {
            let sections = sections.as_table().unwrap().keys();
            sections.map(|section| (method.clone(), section.clone()))
        })
        .collect();
    let expected = METHODS.iter().flat_map(|entry| {
        let sections = ["every"].iter().chain(entry.presets.names());
        sections.map(|section| (entry.name.to_owned(), (*section).to_owned()))
    });
    assert_eq!(found, expected.collect());
}
