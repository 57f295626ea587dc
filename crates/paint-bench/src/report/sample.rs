//! Results for tests.

use std::collections::BTreeMap;

use crate::grid::{Column, Results, Row, Spread};
use crate::protocol::Protocol;

fn row(label: &str, method: &str, settings: serde_json::Value, cells: &[f64]) -> Row {
    let mut row = Row {
        origin: None,
        label: label.into(),
        method: method.into(),
        settings,
        preset: None,
        changed: BTreeMap::new(),
        own: BTreeMap::new(),
        accuracy: Spread::of(cells).unwrap(),
        by_domain: cells.iter().copied().map(Some).collect(),
        by_severity: Vec::new(),
        by_round: Vec::new(),
        ece: 3.0,
        nll: 0.5,
        prompts: None,
        matching_per_batch: None,
        matching_per_domain: None,
        cost: None,
        glances: Vec::new(),
    };
    row.name_settings();
    row
}

/// Domains by name.
pub(crate) fn columns(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column { name: (*name).into() }).collect()
}

/// Two rows over two domains.
pub(crate) fn results() -> Results {
    let protocol = Protocol::find("embedded").unwrap();
    let settings = serde_json::json!({"preset": "paper_adam", "eta": 0.5});
    Results {
        hash: protocol.hash().unwrap(),
        version: "0".into(),
        precision: None,
        command: "paint bench".into(),
        target: None,
        protocol,
        images: Some(50),
        columns: columns(&["fog", "shot_noise"]),
        rows: vec![
            row("source", "source", serde_json::json!({}), &[50.0, 60.0]),
            row("paint", "paint", settings, &[70.0, 58.0]),
        ],
        significance: Vec::new(),
        failures: Vec::new(),
        mixed: false,
        rate: paint_run::metric::Rate::Accuracy,
    }
}

/// The second row once for each value of one of its settings, under the label that the paper's row has.
pub(crate) fn swept(key: &str, values: &[f64]) -> Results {
    let mut results = results();
    let row = results.rows.remove(1);
    let at = |value: &f64| Row {
        label: format!("{key}={value}"),
        own: BTreeMap::from([(key.to_owned(), (*value).into())]),
        ..row.clone()
    };
    results.rows = values.iter().map(at).collect();
    results
}

/// Two rows with names that every format would act on.
pub(crate) fn hostile() -> Results {
    renamed("a\u{1b}[2J\r\n\\end{x}% | <img src=x onerror=y> & \"b\", `c` $x$")
}

/// The same, with `name` in the place or at the end of every name.
pub(crate) fn renamed(name: &str) -> Results {
    let mut results = results();
    results.protocol.name = name.into();
    results.protocol.what = name.into();
    results.protocol.model.tag = name.into();
    results.columns.iter_mut().for_each(|column| column.name.push_str(name));
    results.rows.iter_mut().for_each(|row| row.label.push_str(name));
    results
}
