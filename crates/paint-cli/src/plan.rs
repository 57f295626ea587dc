//! What a command would do, for `--dry-run`: the resolved document with the origin of every value.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paint_files::printable;
use paint_run::Draft;
use paint_run::config::{Method, flatten};
use paint_run::deployment::AUTO;
use serde::Serialize;

/// What was resolved and not started.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    /// What is true of the whole, one line each.
    facts: Vec<String>,
    config: toml::Table,
    /// Where each value comes from, by dotted key.
    origins: BTreeMap<String, String>,
}

impl Plan {
    /// A document whose values come from where `origin` says, by dotted key.
    pub(crate) fn new(
        config: &impl Serialize,
        facts: &[String],
        origin: impl Fn(&str) -> String,
    ) -> anyhow::Result<Self> {
        let origins = leaves(config)?.into_keys().map(|key| (key.clone(), origin(&key)));
        let origins = origins.collect();
        Ok(Self { facts: facts.to_vec(), config: toml::Table::try_from(config)?, origins })
    }

    /// The document with the rest as comments: still a file that the command reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for fact in &self.facts {
            let _ = writeln!(text, "# {}", printable(fact));
        }
        text.push_str("# nothing was run or written\n");
        let document = toml::to_string(&self.config).unwrap_or_default();
        let mut section = String::new();
        for line in document.lines() {
            if line.starts_with('[') {
                section = format!("{}.", line.trim_matches(['[', ']']));
            }
            let key = line.split(" = ").next().unwrap_or_default();
            match self.origins.get(&format!("{section}{key}")) {
                Some(origin) => {
                    let _ = writeln!(text, "{line:WIDTH$}  # {}", printable(origin));
                }
                None => {
                    let _ = writeln!(text, "{line}");
                }
            }
        }
        text
    }
}

/// The column of the comments.
const WIDTH: usize = 40;

/// Every value of a document by its dotted key.
pub(crate) fn leaves(config: &impl Serialize) -> anyhow::Result<BTreeMap<String, String>> {
    let mut leaves = Vec::new();
    flatten("", toml::Table::try_from(config)?.into(), &mut leaves);
    Ok(leaves.into_iter().collect())
}

/// Where a value of an opened adaptation comes from, given what was typed and the method with its resolved settings.
pub(crate) fn adaptation(typed: &Draft, method: &Method, key: &str) -> String {
    let preset = method.settings.get(paint_methods::PRESET).and_then(toml::Value::as_str);
    match (key.split_once('.'), preset) {
        (Some(("method", "name")), _)
            if typed.get(key).and_then(|it| it.as_str()) == Some(AUTO) =>
        {
            "chosen by the network".into()
        }
        _ if typed.get(key).is_some() => "given".into(),
        (Some(("method", paint_methods::PRESET)), _) => "for this network and dataset".into(),
        (Some(("method", _)), Some(preset)) => format!("preset {preset}"),
        (Some(("model", name)), _) if name != "resize" => "from the weights".into(),
        _ => "default".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_a_document_in_which_every_value_says_where_it_comes_from() {
        let mut typed = Draft::default();
        typed.set("method.name", "tent").unwrap();
        typed.set("method.lr", 0.5).unwrap();
        let config: toml::Table =
            "seed = 0\n[method]\nname = 'tent'\npreset = 'vit_cifar10'\nlr = 0.5\n\
             optimizer = 'adam'\n[model]\nbackbone = 'vit'\nresize = 'always'"
                .parse()
                .unwrap();
        let mut method = Method::named("tent");
        method.settings.insert("preset".into(), "vit_cifar10".into());
        let plan = Plan::new(&config, &["3 images".into()], |key| adaptation(&typed, &method, key));
        let text = plan.unwrap().text();
        assert_eq!(text.parse::<toml::Table>().unwrap(), config);
        let origin = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap();
            line.split("  # ").nth(1).unwrap().to_owned()
        };
        assert_eq!([origin("seed"), origin("resize")], ["default", "default"]);
        assert_eq!([origin("name"), origin("lr")], ["given", "given"]);
        assert_eq!(origin("preset"), "for this network and dataset");
        assert_eq!(origin("optimizer"), "preset vit_cifar10");
        assert_eq!(origin("backbone"), "from the weights");
        assert!(text.starts_with("# 3 images\n# nothing was run or written\n"), "{text}");
    }
}
