//! A benchmark that was resolved and not started, for `--dry-run`.

use std::fmt::Write as _;
use std::path::Path;

use paint_bench::Protocol;
use paint_bench::grid::{Cell, Grid, Named, Variant};
use serde::Serialize;

/// What would run.
#[derive(Serialize)]
pub(super) struct Plan<'a> {
    hash: &'a str,
    protocol: &'a Protocol,
    rows: Vec<PlannedRow<'a>>,
    /// One for each row, order and seed.
    runs: Vec<String>,
    out: &'a Path,
    #[serde(skip)]
    document: String,
}

#[derive(Serialize)]
struct PlannedRow<'a> {
    label: &'a str,
    method: &'a str,
    /// The preset, and what differs from it.
    named: String,
    settings: &'a toml::Table,
}

impl<'a> Plan<'a> {
    pub(super) fn new(grid: &'a Grid, out: &'a Path) -> anyhow::Result<Self> {
        let row = |(variant, named): (&'a Variant, Named)| {
            let cell = grid.cells.iter().find(|cell| cell.label == variant.label)?;
            let settings = &cell.config.method.settings;
            let (label, method) = (&variant.label, &variant.method);
            Some(PlannedRow { label, method, named: named.to_string(), settings })
        };
        Ok(Self {
            hash: &grid.hash,
            protocol: &grid.protocol,
            rows: grid.rows().filter_map(row).collect(),
            runs: grid.cells.iter().map(Cell::name).collect(),
            out,
            document: grid.protocol.to_toml()?,
        })
    }

    /// The resolved protocol, with the rest as its comments: a file for `--protocol`.
    pub(super) fn text(&self) -> String {
        let mut out = format!("# protocol {} {}\n", self.protocol.name, self.hash);
        for row in &self.rows {
            let settings = row.settings.iter().map(|(key, value)| format!("{key} = {value}"));
            let settings = settings.collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "# row {}: {settings}", row.label);
        }
        let _ = writeln!(
            out,
            "# {} runs in {}; nothing was run or written",
            self.runs.len(),
            self.out.display()
        );
        out + &self.document
    }
}
