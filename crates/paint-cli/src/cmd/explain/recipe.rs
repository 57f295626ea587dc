//! A recipe of training: every hyper-parameter with its value here.

use paint_settings::Describe as _;
use paint_train::{Preset, Recipe};
use toml::Table;

use super::explanation::{Explanation, key_rows, value_at};

pub(super) fn explain(row: &Preset) -> anyhow::Result<Explanation> {
    let values = Table::try_from((row.recipe)())?;
    Ok(Explanation {
        kind: "recipe",
        name: row.name.into(),
        what: row.what.into(),
        facts: vec![("source", row.source.to_owned())],
        set: format!("paint train --preset {} --set KEY=VALUE", row.name),
        keys: key_rows(Recipe::KIND.keys(), &|key| value_at(&values, key)),
        next: format!(
            "paint train --dataset cifar10 --data CIFAR --backbone vit_tiny_patch4_32 --preset {}",
            row.name
        ),
        ..Explanation::default()
    })
}
