//! `paint list`: the rows of the tables that names in configs and on the command line refer to.

use paint_data::DATASETS;
use serde::Serialize;

use crate::output::Output;

/// One row of a table, as told to the user.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    what: String,
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

const TOPICS: &[Topic] = &[Topic {
    name: "datasets",
    rows: || DATASETS.iter().map(|entry| Row::new(entry.name, entry.what)).collect(),
}];

/// List what can be named: datasets, corruptions, scenarios, ...
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The table to list
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TOPICS.iter().map(|topic| topic.name)))]
    topic: String,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let rows: Vec<Row> = TOPICS
        .iter()
        .filter(|topic| topic.name == args.topic)
        .flat_map(|topic| (topic.rows)())
        .collect();
    args.output.print(&rows, |rows| {
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        rows.iter().map(|row| format!("{:width$}  {}\n", row.name, row.what)).collect()
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
}
