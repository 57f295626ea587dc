//! The result of a cell: what the same configuration gives again to the bit. Times lie elsewhere.

use std::path::Path;

use paint_run::metric::Glance;
use paint_run::summary::{Cost, DomainResult, Figures, MatchingAccuracy, Summary};
use serde::{Deserialize, Serialize};

use super::cell::Cell;

/// One line of `results.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The hash of everything that decides the numbers below.
    pub cell: String,
    /// The protocol's hash.
    pub protocol: String,
    /// The row it belongs to.
    pub label: String,
    /// The method's name.
    pub method: String,
    /// Every setting.
    pub settings: serde_json::Value,
    /// The order of the stream, where the protocol has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The seed.
    pub seed: u64,
    /// Where it ran: another device rounds otherwise.
    pub device: String,
    /// How it computed.
    pub precision: String,
    /// The mean over the visits, each counting the same, in percent.
    pub mean_accuracy: f64,
    /// Over all images.
    pub overall: Figures,
    /// Every visit, in order.
    pub visits: Vec<DomainFigures>,
    /// Pooled by true domain, where that differs from the visits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_domain: Vec<DomainFigures>,
    /// Prompts against true domains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<MatchingAccuracy>,
    /// What a probe saw.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub glances: Vec<Glance>,
    /// What the method asked of its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Hash of the bits of all logits.
    pub logits_hash: String,
}

/// The figures of a visit or a domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DomainFigures {
    /// The domain's name.
    pub name: String,
    /// Its severity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// Prompts made.
    pub prompts_allocated: u64,
}

impl From<&DomainResult> for DomainFigures {
    fn from(domain: &DomainResult) -> Self {
        Self {
            name: domain.name.clone(),
            severity: domain.severity,
            figures: domain.figures.clone(),
            prompts_allocated: domain.prompts_allocated,
        }
    }
}

impl CellResult {
    pub(super) fn new(cell: &Cell, protocol: &str, summary: &Summary) -> Self {
        Self {
            cell: cell.id.clone(),
            protocol: protocol.into(),
            label: cell.label.clone(),
            method: cell.config.method.name.clone(),
            settings: serde_json::json!(cell.config.method.settings),
            order: cell.order.clone(),
            seed: cell.config.seed,
            device: summary.setup.device.clone(),
            precision: cell.config.precision.clone(),
            mean_accuracy: summary.mean_accuracy.unwrap_or_default(),
            overall: summary.overall.clone(),
            visits: summary.domains.iter().map(Into::into).collect(),
            by_domain: summary.by_domain.iter().map(Into::into).collect(),
            matching: summary.matching.clone(),
            glances: summary.glances.clone(),
            cost: summary.cost.clone(),
            logits_hash: summary.logits_hash.clone(),
        }
    }

    /// The file of a finished cell.
    pub(super) const FILE: &str = "result.json";

    /// The result of this cell, if it is finished: a row may be called otherwise than when the cell was run.
    pub(super) fn read(folder: &Path, cell: &Cell, protocol: &str) -> Option<Self> {
        let text = paint_files::read_text(&folder.join(Self::FILE)).ok()?;
        let found: Self = serde_json::from_str(&text).ok()?;
        let (label, protocol) = (cell.label.clone(), protocol.to_owned());
        (found.cell == cell.id).then_some(Self { protocol, label, ..found })
    }
}
