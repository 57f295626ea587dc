//! From cells to a table: a row for each variant, a column for each domain, means over seeds and orders.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{CellResult, DomainFigures, Failure, Grid, Outcome, Paired, paired};
use crate::protocol::{Metric, Protocol};
use crate::reproduce::Target;
use crate::{Error, Result};
use paint_run::config::is_default_precision;
use paint_run::probe::{CLEAN, Glance};
use paint_run::summary::Cost;

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
    /// Cells that broke.
    pub failures: Vec<Failure>,
}

/// A domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
}

/// A mean over runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation (over n − 1); none for one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    /// Runs.
    pub runs: usize,
}

impl Spread {
    /// Of some values; none of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let std = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        (!values.is_empty()).then_some(Self { mean, std, runs: values.len() })
    }
}

/// A variant, over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is called.
    pub label: String,
    /// The row of `METHODS`.
    pub method: String,
    /// Every setting.
    pub settings: serde_json::Value,
    /// The protocol's metric in percent.
    pub accuracy: Spread,
    /// Accuracy by column, in percent.
    pub by_domain: Vec<Option<f64>>,
    /// Mean accuracy by severity, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_severity: Vec<(u8, f64)>,
    /// Mean accuracy of each round, where the sequence recurs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_round: Vec<f64>,
    /// Expected calibration error in percent.
    pub ece: f64,
    /// Negative log-likelihood in nats.
    pub nll: f64,
    /// Prompts made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<f64>,
    /// Batches that used the prompt first made for their domain, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching_per_batch: Option<f64>,
    /// Domains whose most used prompt is that one, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching_per_domain: Option<f64>,
    /// What it asks of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What a probe saw after each visit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub glances: Vec<Glance>,
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(&values.into_iter().collect::<Vec<_>>()).map(|spread| spread.mean)
}

/// The domains of a run: its visits, or the true domains where a visit mixes several.
fn domains(cell: &CellResult) -> &[DomainFigures] {
    let mixed = cell.visits.iter().any(|visit| visit.name == "mixed");
    if mixed { &cell.by_domain } else { &cell.visits }
}

fn visit_sizes(cell: &CellResult) -> impl Iterator<Item = u64> {
    cell.visits.iter().map(|visit| visit.figures.samples)
}

/// What a probe saw, or, where clean images are visits of their own, what those gave.
fn glances(cell: &CellResult) -> Vec<Glance> {
    let mut all = cell.glances.clone();
    if all.is_empty() {
        let clean = cell.visits.iter().filter(|visit| visit.name == CLEAN);
        let glance = |(after, visit): (usize, &DomainFigures)| Glance {
            after,
            clean: visit.figures.accuracy,
            previous: None,
        };
        all = clean.enumerate().map(glance).collect();
    }
    // One look at clean images is a domain like any other.
    if all.len() > 1 || !cell.glances.is_empty() { all } else { Vec::new() }
}

/// The mean accuracy of the visits for which `keep` holds.
fn accuracy_where(cell: &CellResult, keep: impl Fn(&DomainFigures) -> bool) -> Option<f64> {
    mean(domains(cell).iter().filter(|domain| keep(domain)).filter_map(|d| d.figures.accuracy))
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
        let row = |label: &str| row(&grid.protocol, &columns, &cells_of(label));
        let rows: Vec<Row> = grid.variants.iter().filter_map(|v| row(&v.label)).collect();
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
        serde_json::from_str(&text).map_err(|error| {
            let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let why = if found.get("setup").is_some() {
                "expected a folder of `paint bench`, found one of `paint run`".into()
            } else {
                error.to_string()
            };
            Error::Results { why, path }
        })
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

    /// The mean accuracy of the best row.
    pub(crate) fn best(&self) -> f64 {
        self.rows.iter().map(|row| row.accuracy.mean).fold(f64::MIN, f64::max)
    }

    /// The domains after which clean images were looked at, in the order of a stream that visits each once.
    pub fn visited(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str()).filter(|name| *name != CLEAN)
    }

    /// The tables and figures of the paper to stand beside.
    pub fn references(&self) -> Vec<&str> {
        match self.target.as_deref().map(Target::find) {
            Some(Ok(target)) => target.references.to_vec(),
            _ => self.protocol.reference.as_deref().into_iter().collect(),
        }
    }

    /// The row of this name.
    pub fn row(&self, label: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == label)
    }
}

/// The figure of a run that the protocol asks for.
fn figure(protocol: &Protocol, cell: &CellResult) -> f64 {
    match protocol.metric {
        Metric::MeanOfVisits => cell.mean_accuracy,
        Metric::Overall => cell.overall.accuracy.unwrap_or_default(),
    }
}

fn row(protocol: &Protocol, columns: &[Column], cells: &[&CellResult]) -> Option<Row> {
    let first = *cells.first()?;
    let over =
        |value: &dyn Fn(&CellResult) -> Option<f64>| mean(cells.iter().filter_map(|c| value(c)));
    let severities = {
        let mut all: Vec<u8> = first.visits.iter().filter_map(|visit| visit.severity).collect();
        all.sort_unstable();
        all.dedup();
        if all.len() > 1 { all } else { Vec::new() }
    };
    let rounds = if protocol.scenario.name == "recurring" {
        first.visits.len() / columns.len().max(1)
    } else {
        0
    };
    let by_round = |round: usize| {
        let visits = round * columns.len()..(round + 1) * columns.len();
        over(&|cell| {
            mean(cell.visits.get(visits.clone())?.iter().filter_map(|v| v.figures.accuracy))
        })
    };
    let looks: Vec<Vec<Glance>> = cells.iter().map(|cell| glances(cell)).collect();
    let glance = |i: usize| {
        let each = |value: fn(&Glance) -> Option<f64>| {
            mean(looks.iter().filter_map(|looks| value(looks.get(i)?)))
        };
        Glance { after: i, clean: each(|g| g.clean), previous: each(|g| g.previous) }
    };
    let cost = first.cost.as_ref().map(|_| {
        let each = |value: &dyn Fn(&Cost) -> f64| {
            mean(cells.iter().filter_map(|cell| cell.cost.as_ref()).map(value)).unwrap_or_default()
        };
        Cost {
            forwards: each(&|cost| cost.forwards),
            backwards: each(&|cost| cost.backwards),
            trainable: each(&|cost| cost.trainable as f64).round() as u64,
        }
    });
    Some(Row {
        label: first.label.clone(),
        method: first.method.clone(),
        settings: first.settings.clone(),
        accuracy: Spread::of(&cells.iter().map(|c| figure(protocol, c)).collect::<Vec<_>>())?,
        by_domain: columns
            .iter()
            .map(|column| over(&|cell| accuracy_where(cell, |domain| domain.name == column.name)))
            .collect(),
        by_severity: severities
            .into_iter()
            .filter_map(|s| {
                Some((s, over(&|cell| accuracy_where(cell, |d| d.severity == Some(s)))?))
            })
            .collect(),
        by_round: (0..rounds).filter_map(by_round).collect(),
        ece: over(&|cell| cell.overall.ece)?,
        nll: over(&|cell| cell.overall.nll)?,
        prompts: over(&|cell| cell.matching.as_ref().map(|m| m.prompts_allocated as f64)),
        matching_per_batch: over(&|cell| cell.matching.as_ref().map(|m| m.per_batch)),
        matching_per_domain: over(&|cell| cell.matching.as_ref().map(|m| m.per_domain)),
        cost,
        glances: (0..looks[0].len()).map(glance).collect(),
    })
}

/// One row against another, over the runs they share.
fn compare(protocol: &Protocol, ours: &[&CellResult], theirs: &[&CellResult]) -> Option<Paired> {
    let pair = |cell: &&CellResult| {
        let same = |other: &&&CellResult| other.seed == cell.seed && other.order == cell.order;
        Some(figure(protocol, cell) - figure(protocol, theirs.iter().find(same)?))
    };
    let differences: Vec<f64> = ours.iter().filter_map(pair).collect();
    let (label, against) = (&ours.first()?.label, &theirs.first()?.label);
    (!differences.is_empty()).then(|| paired(label, against, &differences))
}
