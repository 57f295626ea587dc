//! Numbers as every table writes them, and the figures beside accuracy that every table has.

use crate::grid::{Row, Spread};

/// A mean with its standard deviation.
pub(super) fn spread(value: Spread, plus_minus: &str) -> String {
    let std = value.std.map_or_else(String::new, |std| format!(" {plus_minus} {std:.2}"));
    format!("{:.2}{std}", value.mean)
}

/// A figure, or a dash where there is none.
pub(super) fn decimal(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

/// A difference, or a dash where there is none.
pub(super) fn signed(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:+.digits$}"))
}

/// A column of the table of costs: its head, and its cell for a row.
pub(super) struct Figure {
    pub(super) head: &'static str,
    pub(super) cell: fn(&Row) -> String,
}

/// What a row costs and how well it is calibrated.
pub(super) const FIGURES: [Figure; 8] = [
    Figure { head: "ECE, %", cell: |row| decimal(Some(row.ece), 2) },
    Figure { head: "NLL", cell: |row| decimal(Some(row.nll), 3) },
    Figure { head: "prompts", cell: |row| decimal(row.prompts, 1) },
    Figure { head: "matching, batches", cell: |row| decimal(row.matching_per_batch, 1) },
    Figure { head: "matching, domains", cell: |row| decimal(row.matching_per_domain, 1) },
    Figure { head: "forwards", cell: |row| decimal(row.cost.as_ref().map(|c| c.forwards), 2) },
    Figure { head: "backwards", cell: |row| decimal(row.cost.as_ref().map(|c| c.backwards), 2) },
    Figure {
        head: "trainable",
        cell: |row| decimal(row.cost.as_ref().map(|cost| cost.trainable as f64), 0),
    },
];
