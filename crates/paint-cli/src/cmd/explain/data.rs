//! Images: datasets, the orders they come in, and the protocols that pin both.

use paint_bench::Protocol;
use paint_bench::reproduce::TARGETS;
use paint_data::dataset::{DatasetEntry, Options};
use paint_data::scenario::{self, ScenarioEntry};
use paint_settings::{Describe as _, Key};
use toml::Table;

use super::explanation::{Explanation, PresetRow, ValueRow, key_rows, plain, value_at};

pub(super) fn explain_dataset(row: &DatasetEntry) -> anyhow::Result<Explanation> {
    let place =
        if row.is_inside { "inside the program; --data is not given" } else { "--data PATH" };
    let mut facts = vec![("place", place.to_owned())];
    facts.extend(
        row.benchmark.map(|name| {
            ("settings", format!("those published for {name}, unless a preset is given"))
        }),
    );
    let keys: Vec<Key> = Options::KIND
        .keys()
        .iter()
        .filter(|key| row.options.contains(&key.name))
        .copied()
        .collect();
    let options = Table::try_from(Options::default())?;
    let verify = if row.is_inside {
        String::new()
    } else {
        format!("paint data verify PATH --dataset {}", row.name)
    };
    Ok(Explanation {
        kind: "dataset",
        name: row.name.into(),
        what: row.what.into(),
        facts,
        set: "--set data.options.KEY=VALUE".into(),
        keys: key_rows(&keys, &|key| value_at(&options, key)),
        next: verify,
        ..Explanation::default()
    })
}

pub(super) fn explain_scenario(row: &ScenarioEntry) -> anyhow::Result<Explanation> {
    // The name is what is being explained.
    let keys = scenario::Config::KIND.keys().iter().skip_while(|key| key.name == "name");
    let keys: Vec<Key> = keys.filter(|key| row.reads(key.name)).copied().collect();
    let defaults = Table::try_from(scenario::Config::default())?;
    Ok(Explanation {
        kind: "scenario",
        name: row.name.into(),
        what: row.what.into(),
        set: "--set scenario.KEY=VALUE".into(),
        keys: key_rows(&keys, &|key| value_at(&defaults, key)),
        next: format!(
            "paint run --scenario {} --method paint --dataset cifar10-c --data CIFAR-10-C --weights W",
            row.name
        ),
        ..Explanation::default()
    })
}

pub(super) fn explain_protocol(name: &str) -> anyhow::Result<Explanation> {
    let protocol = Protocol::find(name)?;
    let document = Table::try_from(&protocol)?;
    let at = |key: &str| value_at(&document, key).unwrap_or_else(|| "as the weights say".into());
    let targets: Vec<&str> = (TARGETS.iter())
        .filter(|target| target.full == name || target.small == name)
        .map(|target| target.name)
        .collect();
    let mut facts = vec![
        ("hash", format!("{}, over every key that decides a number", protocol.hash()?)),
        ("dataset", at("data.name")),
        ("weights", at("model.tag")),
        (
            "scenario",
            format!("{}, batches of {}", protocol.scenario.name, protocol.scenario.batch_size),
        ),
        ("seeds", at("seeds")),
        ("metric", at("metric")),
        ("prediction", at("prediction")),
    ];
    if !targets.is_empty() {
        facts.push(("reproduces", targets.join(", ")));
    }
    facts.extend(
        protocol.paper.iter().map(|(key, value)| ("the paper has", format!("{key} = {value}"))),
    );
    let settings = protocol.settings.iter().map(|(method, settings)| {
        let value = |(key, value): (&String, &toml::Value)| ValueRow {
            key: format!("{method}.{key}"),
            value: plain(value),
            source: String::new(),
        };
        settings.iter().map(value).collect::<Vec<_>>()
    });
    let settings = PresetRow {
        name: "settings of methods".into(),
        is_default: false,
        meaning: "unless --set gives others".into(),
        values: settings.flatten().collect(),
    };
    Ok(Explanation {
        kind: "protocol",
        name: name.into(),
        what: protocol.what.clone(),
        facts,
        presets: if settings.values.is_empty() { Vec::new() } else { vec![settings] },
        next: format!("paint bench --protocol {name} --methods source,tent,paint --dry-run"),
        ..Explanation::default()
    })
}
