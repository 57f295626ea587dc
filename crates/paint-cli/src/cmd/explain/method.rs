//! A method: its paper, what it needs, its settings and where their values come from.

use paint_methods::{MethodEntry, Networks, PRESET, Presets, SourceNeed};
use toml::{Table, toml};

use super::explanation::{Explanation, PresetRow, ValueRow, key_rows, value_at};

pub(super) fn explain(row: &MethodEntry) -> anyhow::Result<Explanation> {
    let needs = match row.needs_source {
        SourceNeed::None => "no source images",
        SourceNeed::Statistics => {
            "no source images; on a transformer, their statistics beside the weights (paint stats)"
        }
        SourceNeed::Unlabelled => {
            "unlabelled source images before deployment (--source-dataset, --source-data)"
        }
        SourceNeed::Labelled => {
            "labelled source images before deployment (--source-dataset, --source-data)"
        }
    };
    let chosen = match row.presets {
        Presets::None => None,
        Presets::ByNetwork => {
            Some("chosen by the network and the dataset, unless given".to_owned())
        }
        Presets::Named(_) => {
            let default = row.resolve(&Table::new())?;
            value_at(&default, PRESET).map(|name| format!("{name}, unless another is given"))
        }
    };
    let networks = match row.runs_on {
        Networks::All => "any network",
        Networks::Transformers => "a vision transformer",
        Networks::Convolutional => "a convolutional network",
        Networks::BatchNorms => {
            "a network with batch norms; without them it leaves the model as it is"
        }
    };
    let at_batch_1 = if row.works_on_single_images {
        "works on single images as they come"
    } else {
        "needs batches; single images with --stream, which makes batches of them"
    };
    let mut facts = vec![
        ("paper", paper(row.paper)),
        ("runs on", networks.to_owned()),
        ("needs", needs.to_owned()),
        ("at batch 1", at_batch_1.to_owned()),
    ];
    facts.extend(chosen.map(|text| ("preset", text)));
    let resolved = resolved(row)?;
    let default = |key: &str| {
        let values = resolved.iter().map(|(_, table)| value_at(table, key));
        let mut values: Vec<_> = values.collect();
        match row.presets {
            // The same in every preset, or none at all.
            Presets::None | Presets::ByNetwork => {
                values.dedup();
                values.pop().filter(|_| values.is_empty()).flatten()
            }
            Presets::Named(_) => value_at(&row.resolve(&Table::new()).ok()?, key),
        }
    };
    let mut keys = key_rows(row.keys, &default);
    // Presets have a section of their own.
    keys.iter_mut().filter(|key| key.key == PRESET).for_each(|key| key.choices.clear());
    Ok(Explanation {
        kind: "method",
        name: row.name.into(),
        what: row.what.into(),
        facts,
        set: format!("--set {}.KEY=VALUE", row.name),
        keys,
        presets: presets(row)?,
        next: format!(
            "paint run --method {} --dataset embedded --corrupt --weights embedded",
            row.name
        ),
    })
}

/// The paper with a link, where its name holds one.
fn paper(name: &str) -> String {
    match name.strip_prefix("arXiv:") {
        Some(number) => format!("{name}, https://arxiv.org/abs/{number}"),
        None => name.to_owned(),
    }
}

/// Every preset with its settings written out.
fn resolved(row: &MethodEntry) -> anyhow::Result<Vec<(Option<&'static str>, Table)>> {
    let names = row.presets.names();
    if names.is_empty() {
        return Ok(vec![(None, row.resolve(&Table::new())?)]);
    }
    let table = |name: &&'static str| {
        let name = *name;
        Ok((Some(name), row.resolve(&toml! { preset = name })?))
    };
    names.iter().map(table).collect()
}

fn presets(row: &MethodEntry) -> anyhow::Result<Vec<PresetRow>> {
    let default = value_at(&row.resolve(&Table::new())?, PRESET);
    let default = default.filter(|_| matches!(row.presets, Presets::Named(_)));
    let choices = row.keys.iter().find(|key| key.name == PRESET).map(|key| key.kind.choices());
    let meaning = |name: &str| {
        let choice = choices.into_iter().flatten().find(|choice| choice.name == name);
        choice.map(paint_settings::Choice::meaning).unwrap_or_default()
    };
    let preset = |&name: &&'static str| PresetRow {
        name: name.into(),
        is_default: default.as_deref() == Some(name),
        meaning: meaning(name),
        values: row.preset_values(Some(name)).into_iter().map(value).collect(),
    };
    Ok(row.presets.names().iter().map(preset).collect())
}

fn value(value: paint_methods::PresetValue) -> ValueRow {
    let paint_methods::PresetValue { key, value, source } = value;
    ValueRow { key: key.into(), value: value.into(), source: source.into() }
}
