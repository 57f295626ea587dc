//! What decides a number: the hash over it, and where two protocols differ in it.

use std::collections::BTreeMap;
use std::fmt;

use paint_run::config::flatten;
use paint_run::fingerprint::digest;
use paint_run::{Error, Result};
use serde::{Deserialize, Serialize};

use super::document::Protocol;
use super::place::PLACES;

/// One key in which two protocols differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The dotted key.
    pub key: String,
    /// Its value here.
    pub ours: String,
    /// Its value there.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} in place of {}", self.key, self.ours, self.theirs)
    }
}

/// Keys that describe and do not decide.
const DESCRIPTION: [&str; 5] = ["name", "what", "reference", "paper", "settings"];
/// What stands for a key that a document does not have.
const NOTHING: &str = "nothing";
/// What a paper cannot tell.
const UNKNOWABLE: [&str; 4] =
    ["data.fingerprint", "fingerprints.probe", "fingerprints.source", "model.sha256"];

impl Protocol {
    /// The keys that decide, with their values.
    fn leaves(&self) -> Result<BTreeMap<String, String>> {
        let mut table = toml::Table::try_from(self).map_err(|e| Error::config(e.to_string()))?;
        table.retain(|key, _| !DESCRIPTION.contains(&key));
        let mut leaves = Vec::new();
        flatten("", table.into(), &mut leaves);
        leaves.retain(|(key, _)| !PLACES.contains(&key.as_str()));
        Ok(leaves.into_iter().collect())
    }

    /// Twelve hexadecimal digits over every key that decides a number.
    pub fn hash(&self) -> Result<String> {
        Ok(digest(self.leaves()?.iter().map(|(key, value)| format!("{key} = {value}"))))
    }

    /// The keys that decide in which another protocol differs.
    pub fn differences(&self, other: &Self) -> Result<Vec<Difference>> {
        Ok(differences(&self.leaves()?, &other.leaves()?))
    }

    /// The keys in which this protocol departs from the one it was made from; what that one leaves to data and
    /// weights is no departure.
    pub fn departures(&self, shipped: &Self) -> Result<Vec<Difference>> {
        let parts = ["model.", "data.", "fingerprints."];
        let open = |key: &str| parts.iter().any(|part| key.starts_with(part));
        let mut found = self.differences(shipped)?;
        found.retain(|difference| difference.theirs != NOTHING || !open(&difference.key));
        Ok(found)
    }

    /// The keys that decide in which the paper's own run of the table differs from this one.
    pub fn differences_from_paper(&self, shipped: &Self) -> Result<Vec<Difference>> {
        let mut paper = shipped.leaves()?;
        paper.extend(shipped.paper.clone());
        let mut found = differences(&self.leaves()?, &paper);
        found.retain(|difference| !UNKNOWABLE.contains(&difference.key.as_str()));
        Ok(found)
    }
}

fn differences(
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let value = |leaves: &BTreeMap<String, String>, key: &str| {
        leaves.get(key).cloned().unwrap_or_else(|| NOTHING.into())
    };
    let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let difference = |key: &String| Difference {
        key: key.clone(),
        ours: value(ours, key),
        theirs: value(theirs, key),
    };
    let found = keys.into_iter().map(difference).filter(|found| found.ours != found.theirs);
    found
        .map(|Difference { key, ours, theirs }| {
            let [ours, theirs] = [ours, theirs].map(|value| without_noise(&value));
            Difference { key, ours, theirs }
        })
        .collect()
}

/// A value with its numbers as they were given: single precision leaves 0.485 with the digits of a double.
pub(super) fn without_noise(value: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut text = String::new();
    let mut rest = value;
    while let Some(start) = rest.find(is_number) {
        let (before, from) = rest.split_at(start);
        let (number, after) = from.split_at(from.find(|c| !is_number(c)).unwrap_or(from.len()));
        text.push_str(before);
        match number.parse::<f32>() {
            Ok(single) if number.len() > 12 && number.contains('.') => {
                text.push_str(&single.to_string());
            }
            _ => text.push_str(number),
        }
        rest = after;
    }
    text + rest
}
