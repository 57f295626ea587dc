//! The grid of a benchmark: every variant of every method, on every order of the stream, with every seed.
//!
//! A [`Cell`] is one run. Its folder is named by the hash of everything that decides its numbers, so that a cell which is
//! there is never run again, whatever grid asks for it, and a cell of other settings is never taken for it. A killed grid
//! goes on where it was: finished cells are read, a broken-off one continues from its checkpoint with the same bits.

mod cell;
mod execute;
mod looks;
mod results;
mod significance;
mod timing;

use std::collections::BTreeMap;
use std::path::PathBuf;

use paint_methods::{SourceNeed, by_name};

pub use cell::{CellResult, DomainFigures};
pub use execute::{Failure, GridEvent, Outcome, execute};
pub use looks::{Look, Looks};
pub use results::{Column, Results, Row, Spread};
pub use significance::{Paired, paired};
pub use timing::CellTiming;

use crate::protocol::{Fingerprints, PLACES, Place, Protocol};
use crate::{Error, Result};
use paint_run::config::{Config, INERT, flatten};
use paint_run::fingerprint::digest;

/// A row of the table: a method with settings of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// What the row is called.
    pub label: String,
    /// The row of `METHODS`.
    pub method: String,
    /// What it is told beside the protocol's settings for it.
    pub settings: toml::Table,
}

impl Variant {
    /// A method under its own name, with the protocol's settings.
    pub fn plain(method: &str) -> Self {
        Self { label: method.into(), method: method.into(), settings: toml::Table::new() }
    }

    /// A method with one or more settings changed.
    pub fn with(label: &str, method: &str, settings: toml::Table) -> Self {
        Self { label: label.into(), method: method.into(), settings }
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The hash of everything that decides its numbers.
    pub id: String,
    /// The row it belongs to.
    pub label: String,
    /// The order of the stream, where the protocol has several.
    pub order: Option<String>,
    /// Its configuration.
    pub config: Config,
}

impl Cell {
    /// What the run is called.
    pub fn name(&self) -> String {
        run_name(&self.label, self.order.as_deref(), self.config.seed)
    }
}

/// What a run is called on a screen and in a report.
fn run_name(label: &str, order: Option<&str>, seed: u64) -> String {
    let order = order.map_or_else(String::new, |order| format!(" {order}"));
    format!("{label}{order} seed {seed}")
}

/// All runs of a benchmark.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The protocol, with everything filled in.
    pub protocol: Protocol,
    /// Its hash.
    pub hash: String,
    /// The rows.
    pub variants: Vec<Variant>,
    /// Row by row, order by order, seed by seed.
    pub cells: Vec<Cell>,
    /// The folder of the results.
    pub out: PathBuf,
}

impl Grid {
    /// The grid of `variants` under a resolved protocol. Unknown methods and settings are refused here, before anything
    /// runs.
    pub fn new(protocol: Protocol, variants: Vec<Variant>, place: &Place) -> Result<Self> {
        if let Some(twice) = (1..variants.len())
            .find(|&i| variants[..i].iter().any(|earlier| earlier.label == variants[i].label))
        {
            let label = &variants[twice].label;
            return Err(Error::config(format!("two rows of the table are called {label:?}")));
        }
        let mut cells = Vec::new();
        for variant in &variants {
            let entry = by_name(&variant.method)?;
            let mut settings = protocol.settings.get(&variant.method).cloned().unwrap_or_default();
            settings.extend(variant.settings.clone());
            let settings = entry.resolve(&settings)?;
            for order in orders(&protocol) {
                for (run, &seed) in protocol.seeds.iter().enumerate() {
                    let mut config = protocol.config(place);
                    config.seed = seed;
                    // What a method does not look at is no part of its cell.
                    config.source =
                        config.source.filter(|_| entry.needs_source != SourceNeed::None);
                    config.method.name.clone_from(&variant.method);
                    config.method.settings.clone_from(&settings);
                    config.scenario.order = order.clone().or(config.scenario.order);
                    let id = cell_id(&config, &protocol, run)?;
                    config.out = place.out.join("cells").join(&id);
                    let label = variant.label.clone();
                    cells.push(Cell { id, label, order: order.clone(), config });
                }
            }
        }
        let hash = protocol.hash()?;
        Ok(Self { protocol, hash, variants, cells, out: place.out.clone() })
    }
}

/// The orders of a protocol; one without a name if it has none.
fn orders(protocol: &Protocol) -> Vec<Option<String>> {
    if protocol.orders.is_empty() {
        return vec![None];
    }
    protocol.orders.iter().cloned().map(Some).collect()
}

/// The hash of a run: its configuration without the places of files, with the fingerprints of the images in their stead.
/// `run` counts the protocol's seeds.
fn cell_id(config: &Config, protocol: &Protocol, run: usize) -> Result<String> {
    let table = toml::Table::try_from(config).map_err(|error| Error::config(error.to_string()))?;
    let mut leaves = Vec::new();
    flatten("", table.into(), &mut leaves);
    let mut leaves: BTreeMap<String, String> = leaves.into_iter().collect();
    for key in INERT.into_iter().chain(PLACES) {
        leaves.remove(key);
    }
    let Fingerprints { source, probe } = &protocol.fingerprints;
    let fingerprints = [
        ("data.fingerprint", protocol.data.fingerprint.as_ref()),
        ("source.fingerprint", source.get(run).filter(|_| config.source.is_some())),
        ("probe.fingerprint", probe.as_ref()),
    ];
    for (key, fingerprint) in fingerprints {
        leaves.extend(fingerprint.map(|fingerprint| (key.to_owned(), fingerprint.clone())));
    }
    leaves.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    Ok(digest(leaves.into_iter().map(|(key, value)| format!("{key} = {value}"))))
}

#[cfg(test)]
pub(crate) mod tests;
