//! From a protocol and some variants to the cells of a grid.

use std::path::PathBuf;

use paint_methods::Registry;
use paint_run::{Error, Result};

use super::cell::{Cell, cell_id};
use super::cell_result::CellResult;
use super::settings::{Named, named};
use super::variant::Variant;
use crate::protocol::{Place, Protocol};
use crate::repeated::repeated;

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
    /// The methods that names are looked up among.
    pub methods: Registry,
}

impl Grid {
    /// Whether every cell has its result: the grid can then be collected on a machine without its device.
    pub fn is_finished(&self) -> bool {
        let is_there = |cell: &Cell| CellResult::read(&cell.config.out, cell, &self.hash).is_some();
        self.cells.iter().all(is_there)
    }

    /// The grid of `variants` under a resolved protocol. Unknown methods and settings are refused here, before anything
    /// runs.
    pub fn new(protocol: Protocol, variants: Vec<Variant>, place: &Place) -> Result<Self> {
        if let Some(Variant { label, .. }) = repeated(&variants, |a, b| a.label == b.label) {
            return Err(Error::config(format!("two rows of the table are called {label:?}")));
        }
        let mut cells = Vec::new();
        for variant in &variants {
            let entry = place.methods.find(&variant.method)?;
            let mut settings = protocol.settings.get(&variant.method).cloned().unwrap_or_default();
            settings.extend(variant.settings.clone());
            let settings = entry.resolve(&settings)?;
            for order in orders(&protocol) {
                for (run, &seed) in protocol.seeds.iter().enumerate() {
                    let mut config = protocol.config(place);
                    config.seed = seed;
                    // What a method does not look at is no part of its cell.
                    config.source = config.source.filter(|_| entry.needs_source.reads_images());
                    config.method.name.clone_from(&variant.method);
                    config.method.settings.clone_from(&settings);
                    config.scenario.order = order.clone().or(config.scenario.order);
                    let id = cell_id(&config, &protocol, run)?;
                    config.out = place.out.join("cells").join(&id);
                    let label = variant.label.clone();
                    let order = order.clone();
                    cells.push(Cell { id, label, order, config, glimpse: None });
                }
            }
        }
        let hash = protocol.hash()?;
        let (out, methods) = (place.out.clone(), place.methods.clone());
        Ok(Self { protocol, hash, variants, cells, out, methods })
    }

    /// The rows, each with the name of its settings.
    pub fn rows(&self) -> impl Iterator<Item = (&Variant, Named)> {
        self.variants.iter().filter_map(|variant| {
            let cell = self.cells.iter().find(|cell| cell.label == variant.label)?;
            let settings = serde_json::json!(cell.config.method.settings);
            Some((variant, named(&self.methods, &variant.method, &settings)))
        })
    }
}

/// The orders of a protocol; one without a name if it has none.
fn orders(protocol: &Protocol) -> Vec<Option<String>> {
    if protocol.orders.is_empty() {
        return vec![None];
    }
    protocol.orders.iter().cloned().map(Some).collect()
}
