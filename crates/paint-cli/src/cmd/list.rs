//! `paint list`: the rows of the tables that names in configs and on the command line refer to.

use paint_bench::Protocol;
use paint_bench::protocol::PROTOCOLS;
use paint_bench::reproduce::TARGETS;
use paint_data::{
    DATASETS, SCENARIOS,
    corruption::{CORRUPTIONS, Corruption},
};
use paint_methods::{METHODS, MethodEntry, SourceNeed};
use paint_nn::backbone::BACKBONES;
use paint_tensor::{BACKENDS, BackendEntry};
use paint_train::PRESETS;
use serde::Serialize;

use crate::Usage;
use crate::output::Output;

/// One row of a table, as told to the user.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What configurations and commands call it.
    pub name: String,
    /// What it is.
    pub what: String,
}

impl Row {
    fn new(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self { name: name.into(), what: what.into() }
    }
}

/// One table that can be listed.
struct Topic {
    name: &'static str,
    rows: fn() -> Vec<Row>,
}

const TOPICS: &[Topic] = &[
    Topic {
        name: "methods",
        rows: || METHODS.iter().map(|entry| Row::new(entry.name, of_method(entry))).collect(),
    },
    Topic {
        name: "backbones",
        rows: || BACKBONES.iter().map(|entry| Row::new(entry.name, entry.summary)).collect(),
    },
    Topic {
        name: "devices",
        rows: || {
            let found = BACKENDS.iter().flat_map(BackendEntry::devices);
            found.map(|device| Row::new(device.name, device.what)).collect()
        },
    },
    Topic {
        name: "datasets",
        rows: || DATASETS.iter().map(|entry| Row::new(entry.name, entry.what)).collect(),
    },
    Topic {
        name: "corruptions",
        rows: || CORRUPTIONS.iter().map(|entry| Row::new(entry.name, describe(entry))).collect(),
    },
    Topic {
        name: "scenarios",
        rows: || SCENARIOS.iter().map(|entry| Row::new(entry.name, entry.what)).collect(),
    },
    Topic {
        name: "protocols",
        rows: || {
            let row = |(name, _): &(&str, &str)| {
                let protocol = Protocol::built_in(name)?;
                let hash = protocol.hash().ok()?;
                Some(Row::new(*name, format!("{} [{hash}]", protocol.what)))
            };
            PROTOCOLS.iter().filter_map(row).collect()
        },
    },
    Topic {
        name: "presets",
        rows: || PRESETS.iter().map(|preset| Row::new(preset.name, preset.what)).collect(),
    },
    Topic {
        name: "tables",
        rows: || TARGETS.iter().map(|target| Row::new(target.name, target.what)).collect(),
    },
];

fn of_method(method: &MethodEntry) -> String {
    let need = match method.needs_source {
        SourceNeed::None => "",
        SourceNeed::Statistics => " [reads statistics of source images on a transformer]",
        SourceNeed::Unlabelled => " [looks at source images first]",
        SourceNeed::Labelled => " [looks at labelled source images first]",
    };
    let single = if method.works_on_single_images { " [works at batch 1]" } else { "" };
    format!("{}{need}{single}", method.what)
}

fn describe(corruption: &Corruption) -> String {
    let group = corruption.group.name();
    let draws = if corruption.random { "random" } else { "deterministic" };
    let role = if corruption.held_out { ", held out for choosing hyper-parameters" } else { "" };
    format!("{group}, {draws}{role}")
}

/// List what can be named: methods, backbones, devices, datasets, corruptions, scenarios, protocols, presets of
/// training recipes, tables
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The table to list
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TOPICS.iter().map(|topic| topic.name)))]
    topic: String,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint list methods
  paint list datasets --json";

/// The rows of a table of `paint list`.
pub fn list(topic: &str) -> anyhow::Result<Vec<Row>> {
    let known = || TOPICS.iter().map(|topic| topic.name).collect::<Vec<_>>().join(", ");
    let found = TOPICS.iter().find(|row| row.name == topic);
    let found =
        found.ok_or_else(|| Usage(format!("expected one of {}, got {topic:?}", known())))?;
    Ok((found.rows)())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.output.print(&list(&args.topic)?, |rows| {
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let lines: Vec<String> =
            rows.iter().map(|row| format!("{:width$}  {}", row.name, row.what)).collect();
        lines.join("\n") + "\n"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_rows_with_unique_names_and_a_description() {
        for topic in TOPICS {
            let rows = (topic.rows)();
            assert!(!rows.is_empty(), "{}", topic.name);
            for (i, row) in rows.iter().enumerate() {
                assert!(!row.what.is_empty(), "{} {}", topic.name, row.name);
                assert!(
                    rows[..i].iter().all(|other| other.name != row.name),
                    "{} {}",
                    topic.name,
                    row.name
                );
            }
        }
    }

    #[test]
    fn every_protocol_is_listed() {
        let topic = TOPICS.iter().find(|topic| topic.name == "protocols").unwrap();
        let listed: Vec<String> = (topic.rows)().into_iter().map(|row| row.name).collect();
        assert_eq!(listed, PROTOCOLS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
