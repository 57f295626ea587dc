//! One run of a grid, and the hash that names it.

use std::collections::BTreeMap;

use paint_run::config::{Config, INERT, flatten};
use paint_run::fingerprint::digest;
use paint_run::{Error, Result};

use crate::protocol::{Fingerprints, PLACES, Protocol};

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
    /// Digits over some of its images, where they may be others than those that the hash is of: on another machine.
    pub glimpse: Option<String>,
}

impl Cell {
    /// What the run is called.
    pub fn name(&self) -> String {
        run_name(&self.label, self.order.as_deref(), self.config.seed)
    }
}

/// What a run is called on a screen and in a report.
pub(super) fn run_name(label: &str, order: Option<&str>, seed: u64) -> String {
    let order = order.map_or_else(String::new, |order| format!(" {order}"));
    format!("{label}{order} seed {seed}")
}

/// The hash of a run: its configuration without the places of files, with the fingerprints of the images in their
/// stead. `run` counts the protocol's seeds.
pub(super) fn cell_id(config: &Config, protocol: &Protocol, run: usize) -> Result<String> {
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
