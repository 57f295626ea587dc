//! `paint explain`: all that the program knows of one name, from the row of its table and the declaration of its
//! settings.

mod data;
mod explanation;
mod method;
mod network;
mod recipe;

use clap::builder::PossibleValuesParser;
use paint_bench::protocol::PROTOCOLS;
use paint_data::{DATASETS, SCENARIOS};
use paint_methods::METHODS;
use paint_nn::backbone::BACKBONES;
use paint_train::PRESETS;

use crate::Usage;
use crate::output::Output;
pub use explanation::Explanation;

/// Explain a method, network, dataset, scenario, protocol or recipe
///
/// Shows what it is and what it needs, every key with default, range and meaning, and the presets with the source of
/// each value. A name that stands for several things is explained as all of them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name; see `paint list`
    #[arg(hide_possible_values = true, value_parser = PossibleValuesParser::new(names()))]
    name: String,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint explain paint
  paint explain cifar10-c
  paint explain vit_finetune --json";

/// Explains a name of one table.
type Explain = fn(&str) -> Option<anyhow::Result<Explanation>>;

/// One row for each kind of name.
const TOPICS: &[Explain] = &[
    |name| METHODS.iter().find(|row| row.name == name).map(method::explain),
    |name| BACKBONES.iter().find(|row| row.name == name).map(network::explain),
    |name| DATASETS.iter().find(|row| row.name == name).map(data::explain_dataset),
    |name| SCENARIOS.iter().find(|row| row.name == name).map(data::explain_scenario),
    |name| PROTOCOLS.iter().find(|row| row.0 == name).map(|row| data::explain_protocol(row.0)),
    |name| PRESETS.iter().find(|row| row.name == name).map(recipe::explain),
];

/// Every name that can be explained.
fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = METHODS.iter().map(|row| row.name).collect();
    names.extend(BACKBONES.iter().map(|row| row.name));
    names.extend(DATASETS.iter().map(|row| row.name));
    names.extend(SCENARIOS.iter().map(|row| row.name));
    names.extend(PROTOCOLS.iter().map(|row| row.0));
    names.extend(PRESETS.iter().map(|row| row.name));
    names.sort_unstable();
    names.dedup();
    names
}

/// All that is known of a name of `paint list`; a name that stands for several things is explained as all of them.
pub fn explain(name: &str) -> anyhow::Result<Vec<Explanation>> {
    let found = TOPICS.iter().filter_map(|explain| explain(name));
    let found = found.collect::<anyhow::Result<Vec<_>>>()?;
    if found.is_empty() {
        let known = names().join(", ");
        return Err(Usage(format!("expected one of {known}, got {name:?}")).into());
    }
    Ok(found)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.output.print(&explain(&args.name)?, |found| {
        found.iter().map(Explanation::text).collect::<Vec<_>>().join("\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(name: &str) -> Vec<Explanation> {
        TOPICS.iter().filter_map(|explain| explain(name)).map(Result::unwrap).collect()
    }

    #[test]
    fn every_name_is_explained_and_every_key_has_range_and_meaning() {
        for name in names() {
            let found = explained(name);
            assert!(!found.is_empty(), "{name}");
            for explanation in found {
                assert!(!explanation.what.is_empty(), "{name}");
                for key in &explanation.keys {
                    assert!(!key.meaning.is_empty(), "{name}: {} has no meaning", key.key);
                    assert!(!key.range.is_empty(), "{name}: {} has no range", key.key);
                }
                let text = explanation.text();
                assert!(text.lines().all(|line| line.chars().count() <= 120), "{name}: {text}");
            }
        }
    }

    #[test]
    fn keys_are_those_that_the_settings_take() {
        for row in METHODS {
            let explanation = method::explain(row).unwrap();
            let resolved = row.resolve(&toml::Table::new()).unwrap();
            let mut expected: Vec<String> = Vec::new();
            for (key, value) in &resolved {
                match value.as_table() {
                    Some(table) => {
                        expected.extend(table.keys().map(|inner| format!("{key}.{inner}")));
                    }
                    None => expected.push(key.clone()),
                }
            }
            for key in &expected {
                assert!(explanation.keys.iter().any(|row| row.key == *key), "{}: {key}", row.name);
            }
        }
    }

    #[test]
    fn presets_have_values_with_their_source_and_the_default_is_marked() {
        let paint = &explained("paint")[0];
        let names: Vec<&str> = paint.presets.iter().map(|preset| preset.name.as_str()).collect();
        assert!(names.contains(&"paper_adam") && names.contains(&"reference"), "{names:?}");
        let defaults: Vec<_> = paint.presets.iter().filter(|preset| preset.is_default).collect();
        assert_eq!(defaults.len(), 1);
        assert_eq!(defaults[0].name, "paper_adam");
        for preset in &paint.presets {
            assert!(!preset.values.is_empty(), "{}", preset.name);
            assert!(preset.values.iter().all(|value| !value.source.is_empty()), "{}", preset.name);
        }
        let eta = paint.keys.iter().find(|key| key.key == "eta").unwrap();
        assert_eq!((eta.default.as_deref(), eta.range.as_str()), (Some("0.2"), "-1 to 1"));
        assert_eq!(eta.search.as_deref(), Some("0 to 0.8"));
        assert!(paint.text().contains("`paint tune` searches 0 to 0.8"));
    }

    #[test]
    fn a_name_of_two_tables_is_explained_twice() {
        let kinds: Vec<&str> = explained("cifar10-c").iter().map(|found| found.kind).collect();
        assert_eq!(kinds, ["dataset", "protocol"]);
    }
}
