//! The settings that are searched, and the candidates among their values.

use paint_methods::MethodEntry;
use paint_run::{Error, Result};
use paint_settings::{Interval, Key, Kind, Search};
use toml::{Table, Value};

use crate::repeated::repeated;

/// One setting that is searched.
#[derive(Debug, Clone)]
pub struct Dimension {
    /// Its key.
    pub key: &'static str,
    /// Where.
    pub search: Search,
    is_count: bool,
}

/// All of them.
#[derive(Debug, Clone)]
pub struct Space {
    /// One or more.
    pub dimensions: Vec<Dimension>,
}

/// How far a neighbour lies, as a share of the way from one end to the other.
const STEP: f64 = 0.1;

/// A value so near an end of its range is said to lie at it.
const EDGE: f64 = 0.03;

/// Draws for each candidate that is asked for: counts may give the same candidate twice.
const DRAWS: usize = 8;

/// A base for each dimension; there are no more.
const BASES: [usize; 6] = [2, 3, 5, 7, 11, 13];

impl Space {
    /// The settings that a method declares as worth a search. If some are asked for, as `lr` or `lr=1e-4..1e-2`,
    /// those alone, whether or not they are declared.
    pub fn new(entry: &MethodEntry, asked: &[String]) -> Result<Self> {
        let dimensions = if asked.is_empty() {
            entry.keys.iter().filter_map(|key| dimension(key, key.search?)).collect()
        } else {
            asked.iter().map(|asked| parse(entry, asked)).collect::<Result<Vec<_>>>()?
        };
        if dimensions.is_empty() {
            let name = entry.name;
            return Err(Error::config(format!("{name} has no setting that is worth a search")));
        }
        if dimensions.len() > BASES.len() {
            let (most, got) = (BASES.len(), dimensions.len());
            return Err(Error::config(format!("expected at most {most} searches, got {got}")));
        }
        if let Some(Dimension { key, .. }) = repeated(&dimensions, |a, b| a.key == b.key) {
            return Err(Error::config(format!("{key}: expected one search, got two")));
        }
        Ok(Self { dimensions })
    }

    /// Up to `count` different candidates, spread as evenly as `count` allows. The first of many are those of few.
    pub(super) fn candidates(&self, count: usize) -> Vec<Table> {
        let mut found: Vec<Table> = Vec::new();
        for draw in 1..=DRAWS * count {
            if found.len() == count {
                break;
            }
            let value = |(one, base): (&Dimension, usize)| {
                (one.key.to_owned(), one.value(radical_inverse(base, draw)))
            };
            let candidate: Table = self.dimensions.iter().zip(BASES).map(value).collect();
            if !found.contains(&candidate) {
                found.push(candidate);
            }
        }
        found
    }

    /// The values of the searched settings among all settings.
    pub(super) fn part(&self, settings: &Table) -> Table {
        let value = |one: &Dimension| Some((one.key.to_owned(), settings.get(one.key)?.clone()));
        self.dimensions.iter().filter_map(value).collect()
    }

    /// The candidates beside one, each with one setting moved a step to one side, with the key that was moved.
    pub(super) fn neighbours(&self, candidate: &Table) -> Vec<(&'static str, Table)> {
        let mut found = Vec::new();
        for one in &self.dimensions {
            let Some(share) = one.share(candidate) else { continue };
            for moved in [share - STEP, share + STEP] {
                let mut beside = candidate.clone();
                beside.insert(one.key.into(), one.value(moved));
                let is_new = found.iter().all(|(_, other)| *other != beside);
                if (0.0..=1.0).contains(&moved) && beside != *candidate && is_new {
                    found.push((one.key, beside));
                }
            }
        }
        found
    }

    /// The settings whose value lies at an end of what was searched: a better one may lie beyond.
    pub(super) fn at_edge(&self, candidate: &Table) -> Vec<&'static str> {
        let is_edge = |share: f64| !(EDGE..=1.0 - EDGE).contains(&share);
        let edge = self.dimensions.iter().filter(|one| one.share(candidate).is_some_and(is_edge));
        edge.map(|one| one.key).collect()
    }
}

impl Dimension {
    fn value(&self, share: f64) -> Value {
        let value = self.search.value(share);
        if self.is_count { Value::Integer(value.round() as i64) } else { Value::Float(value) }
    }

    fn share(&self, settings: &Table) -> Option<f64> {
        let value = settings.get(self.key)?;
        let number = value.as_float().or_else(|| value.as_integer().map(|count| count as f64))?;
        Some(self.search.share(number))
    }
}

/// A search of a key; none where its values are no numbers.
fn dimension(key: &Key, search: Search) -> Option<Dimension> {
    let is_count = matches!(key.kind, Kind::Count(_));
    let is_number = is_count || matches!(key.kind, Kind::Number(_));
    is_number.then_some(Dimension { key: key.name, search, is_count })
}

/// `lr`, or `lr=1e-4..1e-2`.
fn parse(entry: &MethodEntry, asked: &str) -> Result<Dimension> {
    let (name, ends) =
        asked.split_once('=').map_or((asked, None), |(name, ends)| (name, Some(ends)));
    let interval = |key: &Key| match key.kind {
        Kind::Count(interval) | Kind::Number(interval) => Some(interval),
        _ => None,
    };
    let Some((key, range)) = entry
        .keys
        .iter()
        .find(|key| key.name == name.trim())
        .and_then(|key| Some((key, interval(key)?)))
    else {
        let known = entry.keys.iter().filter(|key| interval(key).is_some()).map(|key| key.name);
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(Error::config(format!(
            "{}: expected a setting that is a number ({known}), got {name:?}",
            entry.name
        )));
    };
    let search = match ends {
        Some(ends) => parse_ends(key, range, ends)?,
        None => key.search.ok_or_else(|| {
            Error::config(format!("{name}: expected {name}=LOW..HIGH, as no search is declared"))
        })?,
    };
    dimension(key, search).ok_or_else(|| Error::config(format!("{name} is no number")))
}

fn parse_ends(key: &Key, range: Interval, text: &str) -> Result<Search> {
    let name = key.name;
    let wrong =
        || Error::config(format!("{name}: expected LOW..HIGH such as 1e-4..1e-2, got {text:?}"));
    let (low, high) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    let (low, high) = (number(low)?, number(high)?);
    for end in [low, high] {
        if !range.contains(end) {
            return Err(Error::config(format!("{name}: expected {range}, got {end}")));
        }
    }
    if low < high { Ok(Search::between(low, high)) } else { Err(wrong()) }
}

/// The digits of `index` to a base, behind the point and in reverse: the numbers of an index from 1 on spread evenly
/// between 0 and 1, and those to several prime bases over a cube (Halton's sequence).
fn radical_inverse(base: usize, mut index: usize) -> f64 {
    let (mut place, mut sum) = (1.0, 0.0);
    while index > 0 {
        place /= base as f64;
        sum += place * (index % base) as f64;
        index /= base;
    }
    sum
}

#[cfg(test)]
mod tests {
    use paint_methods::Registry;
    use toml::toml;

    use super::*;

    fn space(method: &str, asked: &[&str]) -> Result<Space> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        Space::new(Registry::default().find(method).unwrap(), &asked)
    }

    #[test]
    fn what_a_method_declares_is_searched_unless_something_is_asked_for() {
        let keys = |space: Space| space.dimensions.iter().map(|one| one.key).collect::<Vec<_>>();
        assert_eq!(keys(space("paint", &[]).unwrap()), ["eta", "lr_blocks"]);
        assert_eq!(keys(space("paint", &["phi=0.3..0.9", "eta"]).unwrap()), ["phi", "eta"]);
        let message = |method: &str, asked: &[&str]| space(method, asked).unwrap_err().to_string();
        assert!(message("source", &[]).contains("source has no setting"));
        assert!(message("tent", &["rate"]).contains("number (lr), got \"rate\""));
        assert!(message("tent", &["lr=0.1"]).contains("LOW..HIGH such as 1e-4..1e-2, got \"0.1\""));
        assert!(message("tent", &["lr=0.1..0.01"]).contains("got \"0.1..0.01\""));
        assert!(message("tent", &["lr=-1..1"]).contains("expected 0 or more, got -1"));
        assert!(message("tent", &["lr", "lr"]).contains("expected one search, got two"));
        assert!(message("paint", &["phi"]).contains("phi=LOW..HIGH"));
    }

    #[test]
    fn every_declared_search_lies_in_what_the_setting_may_take() {
        for entry in Registry::default().rows() {
            for key in entry.keys {
                let Some(search) = key.search else { continue };
                let (Kind::Number(range) | Kind::Count(range)) = key.kind else {
                    panic!("{}.{} is no number", entry.name, key.name)
                };
                let [low, high] = search.ends();
                let is_inside = range.contains(low) && range.contains(high) && low < high;
                assert!(is_inside, "{}.{}: {search}", entry.name, key.name);
            }
        }
    }

    #[test]
    fn candidates_differ_and_leave_no_eighth_of_a_range_out() {
        let found = space("eata", &[]).unwrap();
        let candidates = found.candidates(27);
        assert_eq!(candidates.len(), 27);
        assert_eq!(found.candidates(9), candidates[..9]);
        for one in &found.dimensions {
            let mut shares: Vec<f64> =
                candidates.iter().filter_map(|candidate| one.share(candidate)).collect();
            shares.extend([0.0, 1.0]);
            shares.sort_by(f64::total_cmp);
            let gap = shares.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            assert!(gap < 0.125, "{}: {gap}", one.key);
        }
        let counts = space("paint", &["blocks=1..4"]).unwrap().candidates(27);
        assert_eq!(counts.len(), 4, "{counts:?}");
    }

    #[test]
    fn neighbours_differ_in_one_setting_and_ends_are_named() {
        let found = space("paint", &[]).unwrap();
        let beside = found.neighbours(&toml! { eta = 0.4 lr_blocks = 1e-5 });
        let expected = [
            ("eta", toml! { eta = 0.32 lr_blocks = 1e-5 }),
            ("eta", toml! { eta = 0.48 lr_blocks = 1e-5 }),
            ("lr_blocks", toml! { eta = 0.4 lr_blocks = 2.51e-5 }),
        ];
        assert_eq!(beside, expected);
        assert_eq!(found.at_edge(&toml! { eta = 0.4 lr_blocks = 1e-5 }), ["lr_blocks"]);
        assert!(found.at_edge(&toml! { eta = 0.4 lr_blocks = 1e-3 }).is_empty());
    }
}
