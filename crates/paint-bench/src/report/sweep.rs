//! One setting at several values: the rows of each sweep, and its curves beside the paper's, by group of corruptions
//! and over all domains.

use paint_data::corruption::{Group, by_name};

use super::compare::{ComparedRow, Comparison};
use crate::grid::{Results, Row, Spread};

/// Fewer values make no sweep.
const VALUES: usize = 3;

/// The rows of one setting.
pub(super) struct Sweep<'a> {
    /// The method.
    pub(super) method: &'a str,
    /// The setting.
    pub(super) key: &'a str,
    /// Its values with their rows, in the order of the results.
    pub(super) points: Vec<(f64, &'a Row)>,
}

/// A mean of each point of a sweep.
pub(super) struct Curve {
    /// What the mean is over.
    pub(super) name: &'static str,
    /// Ours, point by point.
    pub(super) ours: Vec<Option<f64>>,
    /// The paper's.
    pub(super) paper: Vec<Option<f64>>,
}

impl Curve {
    /// Whether the paper has any of it.
    pub(super) fn has_paper(&self) -> bool {
        self.paper.iter().any(Option::is_some)
    }
}

/// The one setting that makes a row what it is: its method, its key and its value.
fn setting(row: &Row) -> Option<(&str, &str, f64)> {
    let mut own = row.own.iter();
    match (own.next(), own.next()) {
        (Some((key, value)), None) => Some((&row.method, key, value.as_f64()?)),
        _ => None,
    }
}

/// Every setting that enough rows have values of, in the order of the rows.
pub(super) fn sweeps(results: &Results) -> Vec<Sweep<'_>> {
    let mut all: Vec<Sweep<'_>> = Vec::new();
    for row in &results.rows {
        let Some((method, key, value)) = setting(row) else { continue };
        match all.iter_mut().find(|sweep| (sweep.method, sweep.key) == (method, key)) {
            Some(sweep) => sweep.points.push((value, row)),
            None => all.push(Sweep { method, key, points: vec![(value, row)] }),
        }
    }
    all.retain(|sweep| sweep.points.len() >= VALUES);
    all
}

/// The groups that the domains belong to, each with its columns; none where some domain is no corruption, or all are of
/// one group.
pub(super) fn groups(results: &Results) -> Vec<(Group, Vec<usize>)> {
    let of = |name: &str| by_name(name).ok().map(|corruption| corruption.group);
    if results.visited().any(|name| of(name).is_none()) {
        return Vec::new();
    }
    let columns = |group: Group| -> Vec<usize> {
        let columns = results.columns.iter().enumerate();
        columns.filter(|(_, column)| of(&column.name) == Some(group)).map(|(at, _)| at).collect()
    };
    let all = Group::ALL.into_iter().map(|group| (group, columns(group)));
    let all: Vec<(Group, Vec<usize>)> = all.filter(|(_, columns)| !columns.is_empty()).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

/// The mean of a row over some columns; none if one of them is missing.
pub(super) fn mean_over(row: &Row, columns: &[usize]) -> Option<f64> {
    let values: Option<Vec<f64>> = columns.iter().map(|&at| row.by_domain[at]).collect();
    Spread::of(&values?).map(|spread| spread.mean)
}

impl Sweep<'_> {
    /// A curve for each group of corruptions, and the mean last.
    pub(super) fn curves(&self, results: &Results, comparisons: &[Comparison]) -> Vec<Curve> {
        let beside = |row: &Row| {
            let mut all = comparisons.iter().flat_map(|comparison| &comparison.rows);
            all.find(|other| other.label == row.label)
        };
        let curve = |name,
                     ours: &dyn Fn(&Row) -> Option<f64>,
                     paper: &dyn Fn(&ComparedRow) -> Option<f64>| {
            let rows = || self.points.iter().map(|(_, row)| *row);
            Curve {
                name,
                ours: rows().map(ours).collect(),
                paper: rows().map(|row| paper(beside(row)?)).collect(),
            }
        };
        let mut curves: Vec<Curve> = groups(results)
            .into_iter()
            .map(|(group, columns)| {
                let ours = |row: &Row| mean_over(row, &columns);
                curve(group.name(), &ours, &|row| row.paper_by_group(group))
            })
            .collect();
        curves.push(curve("mean", &|row| Some(row.accuracy.mean), &|row| Some(row.paper)));
        curves
    }
}

#[cfg(test)]
mod tests {
    use paint_run::metric::Rate;

    use super::super::sample::{columns, results, swept};
    use super::*;

    #[test]
    fn a_setting_at_three_values_is_a_sweep_and_at_two_it_is_none() {
        assert!(sweeps(&results()).is_empty());
        assert!(sweeps(&swept("eta", &[0.1, 0.2])).is_empty());
        let results = swept("eta", &[0.1, 0.2, 0.9]);
        let found = sweeps(&results);
        assert_eq!((found.len(), found[0].key, found[0].points.len()), (1, "eta", 3));
    }

    #[test]
    fn every_domain_counts_in_the_group_of_its_corruption() {
        let mut results = swept("prompt_length", &[0.0, 2.0, 4.0]);
        results.columns = columns(&["fog", "shot_noise", "clean", "snow"]);
        let cells = [70.0, 58.0, 99.0, 40.0].map(Some);
        results.rows.iter_mut().for_each(|row| row.by_domain = cells.into());
        assert_eq!(groups(&results), [(Group::Noise, vec![1]), (Group::Weather, vec![0, 3])]);
        let comparison = Comparison::new(&results, "prompt-length").unwrap();
        let curves = sweeps(&results)[0].curves(&results, &[comparison]);
        let point = |at: usize| (curves[at].name, curves[at].ours[1], curves[at].paper[1]);
        assert_eq!(point(0), ("noise", Some(58.0), Some(56.88)));
        assert_eq!(point(1), ("weather", Some(55.0), Some(67.24)));
        assert_eq!(point(2), ("mean", Some(64.0), Some(60.31)));
        let errors = results.shown_as(Rate::Error);
        let comparison = Comparison::new(&errors, "prompt-length").unwrap();
        let noise = &sweeps(&errors)[0].curves(&errors, &[comparison])[0];
        assert_eq!((noise.ours[1], noise.paper[1]), (Some(42.0), Some(100.0 - 56.88)));
    }

    #[test]
    fn domains_that_are_no_corruptions_or_of_one_kind_have_no_groups() {
        let mut results = results();
        assert_eq!(groups(&results).len(), 2);
        results.columns = columns(&["fog", "shot_noise", "sketch"]);
        assert!(groups(&results).is_empty());
        results.columns = columns(&["fog", "snow"]);
        assert!(groups(&results).is_empty());
    }
}
