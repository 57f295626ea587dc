//! A row of the table: a variant over its runs.

use std::collections::BTreeMap;

use paint_methods::Registry;
use paint_run::metric::Glance;
use paint_run::metric::Rate;
use paint_run::probe::CLEAN;
use paint_run::summary::Cost;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell_result::{CellResult, DomainFigures};
use super::layout::Grid;
use super::settings::{Named, changes, named};
use super::variant::Variant;
use crate::protocol::{Metric, Protocol};

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
    /// The standard deviation (over n − 1); none for one run, and where every run gives the same bits.
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

    /// Of the mean; zero for one run, which says nothing about it.
    pub fn standard_error(&self) -> f64 {
        self.std.unwrap_or(0.0) / (self.runs as f64).sqrt()
    }
}

/// Where a row of several results in one table comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The hash of its protocol.
    pub protocol: String,
    /// How it was computed.
    pub precision: String,
}

/// A variant, over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Where it comes from, if not from the results that hold it.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// What it is called.
    pub label: String,
    /// The method's name.
    pub method: String,
    /// The preset its settings come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// By dotted key, every setting that is not the preset's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed: BTreeMap<String, Value>,
    /// What sets the row apart from the others of its method, on top of the protocol's settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, Value>,
    /// Every setting.
    pub settings: Value,
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

impl Row {
    /// The settings in a few words, such as `paper_adam, eta=0.4`; empty if the method has none.
    pub fn setup(&self) -> String {
        Named { preset: self.preset.clone(), changed: self.changed.clone() }.to_string()
    }

    /// The settings that are not the preset's, such as `eta=0.4`.
    pub fn changes(&self) -> String {
        changes(&self.changed)
    }

    /// Writes every accuracy as `rate` does.
    pub(super) fn show_as(&mut self, rate: Rate) {
        let show = |accuracy: &mut f64| *accuracy = rate.of(*accuracy);
        show(&mut self.accuracy.mean);
        self.by_domain.iter_mut().flatten().for_each(show);
        self.by_severity.iter_mut().for_each(|(_, accuracy)| show(accuracy));
        self.by_round.iter_mut().for_each(show);
        for glance in &mut self.glances {
            let seen = [&mut glance.clean, &mut glance.learnt, &mut glance.previous];
            seen.into_iter().flatten().for_each(show);
        }
    }

    /// Fills in `preset` and `changed` from the settings.
    pub(crate) fn name_settings(&mut self) {
        let Named { preset, changed } = named(&Registry::default(), &self.method, &self.settings);
        (self.preset, self.changed) = (preset, changed);
    }
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(&values.into_iter().collect::<Vec<_>>()).map(|spread| spread.mean)
}

/// The domains of a run: its visits, or the true domains where a visit is of several.
pub(super) fn domains(cell: &CellResult) -> &[DomainFigures] {
    let of_one = |visit: &DomainFigures| cell.by_domain.iter().any(|d| d.name == visit.name);
    if cell.by_domain.is_empty() || cell.visits.iter().all(of_one) {
        &cell.visits
    } else {
        &cell.by_domain
    }
}

/// What a probe saw, or, where clean images are visits of their own, what those gave.
fn glances(cell: &CellResult) -> Vec<Glance> {
    let mut all = cell.glances.clone();
    if all.is_empty() {
        let clean = cell.visits.iter().filter(|visit| visit.name == CLEAN);
        let glance = |(after, visit): (usize, &DomainFigures)| Glance {
            after,
            clean: visit.figures.accuracy,
            learnt: None,
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

/// The figure of a run that the protocol asks for.
pub(super) fn figure(protocol: &Protocol, cell: &CellResult) -> f64 {
    match protocol.metric {
        Metric::MeanOfVisits => cell.mean_accuracy,
        Metric::Overall => cell.overall.accuracy.unwrap_or_default(),
    }
}

/// How often a run goes through all domains in the same order; 0 if it does not return to them.
fn rounds(cell: &CellResult, columns: &[Column]) -> usize {
    let returns = |(at, visit): (usize, &DomainFigures)| {
        columns.get(at % columns.len().max(1)).is_some_and(|column| column.name == visit.name)
    };
    let rounds = cell.visits.len() / columns.len().max(1);
    let whole = rounds * columns.len() == cell.visits.len();
    let returns = rounds > 1 && whole && cell.visits.iter().enumerate().all(returns);
    if returns { rounds } else { 0 }
}

/// The row of a variant over its runs; none if no run finished.
pub(super) fn row(
    grid: &Grid,
    columns: &[Column],
    variant: &Variant,
    cells: &[&CellResult],
) -> Option<Row> {
    let (first, protocol) = (*cells.first()?, &grid.protocol);
    let over =
        |value: &dyn Fn(&CellResult) -> Option<f64>| mean(cells.iter().filter_map(|c| value(c)));
    let severities = {
        let mut all: Vec<u8> = first.visits.iter().filter_map(|visit| visit.severity).collect();
        all.sort_unstable();
        all.dedup();
        if all.len() > 1 { all } else { Vec::new() }
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
        Glance {
            after: i,
            clean: each(|g| g.clean),
            learnt: each(|g| g.learnt),
            previous: each(|g| g.previous),
        }
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
    let Named { preset, changed } = named(&grid.methods, &first.method, &first.settings);
    let own = variant.settings.iter();
    let accuracy = Spread::of(&cells.iter().map(|c| figure(protocol, c)).collect::<Vec<_>>())?;
    // The same run under every seed has no spread that would mean anything.
    let is_repeated = cells.iter().all(|cell| cell.logits_hash == first.logits_hash);
    let accuracy = Spread { std: accuracy.std.filter(|_| !is_repeated), ..accuracy };
    Some(Row {
        origin: None,
        label: first.label.clone(),
        method: first.method.clone(),
        preset,
        changed,
        own: own.map(|(key, value)| (key.clone(), serde_json::json!(value))).collect(),
        settings: first.settings.clone(),
        accuracy,
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
        by_round: (0..rounds(first, columns)).filter_map(by_round).collect(),
        ece: over(&|cell| cell.overall.ece)?,
        nll: over(&|cell| cell.overall.nll)?,
        prompts: over(&|cell| cell.matching.as_ref().map(|m| m.prompts_allocated as f64)),
        matching_per_batch: over(&|cell| cell.matching.as_ref().map(|m| m.per_batch)),
        matching_per_domain: over(&|cell| cell.matching.as_ref().map(|m| m.per_domain)),
        cost,
        glances: (0..looks[0].len()).map(glance).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(visits: &[&str], by_domain: &[&str]) -> CellResult {
        let figures =
            |name: &&str| serde_json::json!({"name": name, "samples": 1, "prompts_allocated": 0});
        let list = |names: &[&str]| names.iter().map(figures).collect::<Vec<_>>();
        serde_json::from_value(serde_json::json!({
            "cell": "", "protocol": "", "label": "", "method": "source", "settings": {}, "seed": 0, "device": "cpu",
            "precision": "f32", "mean_accuracy": 0.0, "overall": {"samples": 1}, "logits_hash": "",
            "visits": list(visits), "by_domain": list(by_domain),
        }))
        .unwrap()
    }

    #[test]
    fn the_domains_of_a_mixed_visit_are_the_true_ones() {
        let names =
            |cell: &CellResult| domains(cell).iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&cell(&["fog", "snow"], &[])), ["fog", "snow"]);
        assert_eq!(names(&cell(&["several"], &["fog", "snow"])), ["fog", "snow"]);
        assert_eq!(names(&cell(&["fog", "fog"], &["fog"])), ["fog", "fog"]);
    }

    #[test]
    fn rounds_are_counted_where_all_domains_return_in_order() {
        let columns = ["fog", "snow"].map(|name| Column { name: name.into() });
        let count = |visits: &[&str]| rounds(&cell(visits, &["fog", "snow"]), &columns);
        assert_eq!(count(&["fog", "snow", "fog", "snow", "fog", "snow"]), 3);
        assert_eq!(count(&["fog", "snow"]), 0);
        assert_eq!(count(&["fog", "fog", "snow", "snow"]), 0);
        assert_eq!(count(&["fog", "snow", "fog"]), 0);
    }
}
