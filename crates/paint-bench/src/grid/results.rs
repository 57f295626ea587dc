//! From cells to a table: a row for each variant, a column for each domain, means over seeds and orders.

use std::collections::HashSet;
use std::path::Path;

use paint_run::config::is_default_precision;
use paint_run::metric::Rate;
use paint_run::probe::CLEAN;
use paint_run::{Error, Result};
use serde::{Deserialize, Serialize};

use super::cell_result::CellResult;
use super::execute::{Failure, Outcome};
use super::layout::Grid;
use super::row::{Column, Row, domains, figure, row};
use super::significance::{Paired, paired};
use super::variant::Variant;
use crate::protocol::Protocol;

/// `summary.json` of a benchmark: nothing in it depends on the machine's speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The hash of the protocol.
    pub hash: String,
    /// The version of this program.
    pub version: String,
    /// How a GPU computed, if not in f32; on small streams it moves a number as another seed does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// The command that gives this again, with places of files left to the reader.
    pub command: String,
    /// The table or figure of the paper that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The protocol, with everything filled in.
    pub protocol: Protocol,
    /// Images of a visit, of the largest if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<u64>,
    /// The domains.
    pub columns: Vec<Column>,
    /// The variants.
    pub rows: Vec<Row>,
    /// The rows against the last one.
    pub significance: Vec<Paired>,
    /// Cells that failed.
    pub failures: Vec<Failure>,
    /// Whether the rows are of several protocols or precisions, so that none of them is the best.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
    /// How the figures of rows and tests are written; a file always holds accuracies.
    #[serde(skip)]
    pub rate: Rate,
}

impl Results {
    /// The table of what a grid gave; `target` is left to the caller.
    pub fn new(grid: &Grid, outcome: &Outcome, command: &str) -> Self {
        let mut columns: Vec<Column> = Vec::new();
        if let Some(first) = outcome.results.first() {
            for domain in domains(first) {
                if columns.iter().all(|column| column.name != domain.name) {
                    columns.push(Column { name: domain.name.clone() });
                }
            }
        }
        let cells_of = |label: &str| -> Vec<&CellResult> {
            outcome.results.iter().filter(|cell| cell.label == label).collect()
        };
        let row = |variant: &Variant| row(grid, &columns, variant, &cells_of(&variant.label));
        let rows: Vec<Row> = grid.variants.iter().filter_map(row).collect();
        let significance = rows.split_last().map_or_else(Vec::new, |(last, others)| {
            let against = |other: &Row| {
                compare(&grid.protocol, &cells_of(&last.label), &cells_of(&other.label))
            };
            others.iter().filter_map(against).collect()
        });
        let precision = grid.cells.first().map(|cell| cell.config.precision.clone());
        Self {
            hash: grid.hash.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            precision: precision.filter(|name| !is_default_precision(name)),
            command: command.into(),
            target: None,
            protocol: grid.protocol.clone(),
            images: outcome.results.iter().flat_map(visit_sizes).max(),
            mixed: false,
            rate: Rate::Accuracy,
            columns,
            rows,
            significance,
            failures: outcome.failures.clone(),
        }
    }

    /// The results in a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("summary.json");
        let text = paint_files::read_text(&path).map_err(|source| Error::Io {
            action: "read",
            source,
            path: path.clone(),
        })?;
        let read: std::result::Result<Self, _> = serde_json::from_str(&text);
        let mut results = read.map_err(|error| {
            let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let why = if found.get("setup").is_some() {
                "expected a folder of `paint bench`, found one of `paint run`".into()
            } else {
                error.to_string()
            };
            Error::Results { why, path }
        })?;
        // Written before rows named their settings.
        let unnamed =
            results.rows.iter_mut().filter(|r| r.preset.is_none() && r.changed.is_empty());
        unnamed.for_each(Row::name_settings);
        Ok(results)
    }

    /// How many runs failed, of how many; none if none did.
    pub fn failed(&self) -> Option<String> {
        let finished: usize = self.rows.iter().map(|row| row.accuracy.runs).sum();
        let failed = self.failures.len();
        (failed > 0).then(|| format!("{failed} of {} runs failed", finished + failed))
    }

    /// How it was computed.
    pub fn precision_name(&self) -> &str {
        self.precision.as_deref().unwrap_or("f32")
    }

    /// The same results with every accuracy as `rate` writes it, for tables, pages and charts.
    #[must_use]
    pub fn shown_as(&self, rate: Rate) -> Self {
        let mut shown = Self { rate, ..self.clone() };
        shown.rows.iter_mut().for_each(|row| row.show_as(rate));
        for test in &mut shown.significance {
            test.difference = rate.difference(test.difference);
        }
        shown
    }

    /// The mean of the best row; none where rows cannot be compared.
    pub(crate) fn best(&self) -> Option<f64> {
        self.best_by(|row| Some(row.accuracy.mean))
    }

    /// The best figure of a column; none where rows cannot be compared.
    pub(crate) fn best_of(&self, column: usize) -> Option<f64> {
        self.best_by(|row| row.by_domain.get(column).copied().flatten())
    }

    fn best_by(&self, value: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let rows = self.rows.iter().filter(|_| !self.mixed);
        rows.filter_map(value).reduce(|a, b| self.rate.better(a, b))
    }

    /// The domains after which clean images were looked at, in the order of a stream that visits each once.
    pub fn visited(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str()).filter(|name| *name != CLEAN)
    }

    /// The row of this name.
    pub fn row(&self, label: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == label)
    }
}

fn visit_sizes(cell: &CellResult) -> impl Iterator<Item = u64> {
    cell.visits.iter().map(|visit| visit.figures.samples)
}

/// One row against another, over the runs they share. Runs that repeat others to the bit prove nothing, and count once.
fn compare(protocol: &Protocol, ours: &[&CellResult], theirs: &[&CellResult]) -> Option<Paired> {
    let mut known = HashSet::new();
    let pair = |cell: &&CellResult| {
        let same = |other: &&&CellResult| other.seed == cell.seed && other.order == cell.order;
        let other = theirs.iter().find(same)?;
        let is_new = known.insert((cell.logits_hash.clone(), other.logits_hash.clone()));
        is_new.then(|| figure(protocol, cell) - figure(protocol, other))
    };
    let differences: Vec<f64> = ours.iter().filter_map(pair).collect();
    let (label, against) = (&ours.first()?.label, &theirs.first()?.label);
    (!differences.is_empty()).then(|| paired(label, against, &differences))
}
