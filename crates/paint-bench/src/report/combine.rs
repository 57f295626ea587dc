//! Several results in one table.

use paint_run::Result;

use crate::grid::{CellTiming, Column, Origin, Results, Row};

/// The name of a row among those of `folders` results.
fn label(row: &str, folder: &str, folders: usize) -> String {
    if folders > 1 { format!("{row} ({folder})") } else { row.to_owned() }
}

/// All times, under the names that [`combine`] gives to rows.
pub fn combine_timings(all: &[(String, Vec<CellTiming>)]) -> Vec<CellTiming> {
    let renamed = |folder: &str, timing: &CellTiming| {
        let label = label(&timing.label, folder, all.len());
        CellTiming { label, ..timing.clone() }
    };
    all.iter().flat_map(|(folder, own)| own.iter().map(|x| renamed(folder, x))).collect()
}

/// All rows, each with the name of its folder where there are several, over all columns. The protocol is the first
/// one's; [`mixture_warnings`] says where that is not everybody's, and then none of the rows is the best.
pub fn combine(all: &[(String, Results)]) -> Option<Results> {
    let (_, first) = all.first()?;
    let mut columns: Vec<Column> = Vec::new();
    for column in all.iter().flat_map(|(_, results)| &results.columns) {
        if !columns.contains(column) {
            columns.push(column.clone());
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (folder, results) in all {
        let place = |column: &Column| results.columns.iter().position(|known| known == column);
        for row in &results.rows {
            let mut row = row.clone();
            row.by_domain =
                columns.iter().map(|column| row.by_domain.get(place(column)?).copied()?).collect();
            row.label = label(&row.label, folder, all.len());
            row.origin = Some(Origin {
                protocol: results.hash.clone(),
                precision: results.precision_name().into(),
            });
            rows.push(row);
        }
    }
    let significance = if all.len() > 1 { Vec::new() } else { first.significance.clone() };
    let failures = all.iter().flat_map(|(_, results)| results.failures.clone()).collect();
    let command = all.iter().map(|(_, results)| results.command.as_str()).collect::<Vec<_>>();
    let command = command.join("\n");
    let alike = |other: &(String, Results)| other.1.images == first.images;
    let images = first.images.filter(|_| all.iter().all(alike));
    let mixed = all.iter().any(|(_, other)| is_other(first, other));
    let first = first.clone();
    Some(Results { command, images, columns, rows, significance, failures, mixed, ..first })
}

/// Whether two results do not belong into one comparison.
fn is_other(first: &Results, other: &Results) -> bool {
    (&other.hash, &other.precision) != (&first.hash, &first.precision)
}

/// A warning for each result that is not of the first one's protocol or precision, with what differs.
pub fn mixture_warnings(all: &[&Results]) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let Some((first, others)) = all.split_first() else { return Ok(warnings) };
    for other in others.iter().filter(|other| is_other(first, other)) {
        let differences = other.protocol.differences(&first.protocol)?;
        let mut named: Vec<String> = differences.iter().map(ToString::to_string).collect();
        if other.precision != first.precision {
            let [ours, theirs] = [other, first].map(|results| results.precision_name());
            named.push(format!("precision: {ours} in place of {theirs}"));
        }
        warnings.push(format!(
            "{} ({}) and {} ({}) are not of one protocol: {}",
            other.protocol.name,
            other.hash,
            first.protocol.name,
            first.hash,
            named.join("; ")
        ));
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::super::sample::results;
    use super::*;

    #[test]
    fn results_of_two_protocols_are_warned_of_by_the_key_that_differs_and_have_no_best() {
        let (ours, mut theirs) = (results(), results());
        assert!(mixture_warnings(&[&ours, &theirs]).unwrap().is_empty());
        let both = |theirs: &Results| {
            combine(&[("a".into(), ours.clone()), ("b".into(), theirs.clone())]).unwrap()
        };
        assert_eq!(both(&theirs).best(), Some(64.0));
        theirs.protocol.scenario.batch_size = 1;
        theirs.hash = theirs.protocol.hash().unwrap();
        assert_eq!((both(&theirs).best(), both(&theirs).best_of(0)), (None, None));
        theirs.precision = Some("bf16".into());
        let csv = super::super::results_csv(&both(&theirs));
        let place = |results: &Results| format!("{},{}", results.hash, results.precision_name());
        assert_eq!(csv.matches(&place(&ours)).count(), 2, "{csv}");
        assert_eq!(csv.matches(&place(&theirs)).count(), 2, "{csv}");
        let latex = super::super::results_latex(&both(&theirs));
        let line = format!("% paint (b): protocol {}, bf16\n", theirs.hash);
        assert!(latex.contains(&line), "{latex}");
        let warnings = mixture_warnings(&[&ours, &theirs]).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("scenario.batch_size: 1 in place of 50"), "{warnings:?}");
        assert!(warnings[0].ends_with("precision: bf16 in place of f32"), "{warnings:?}");
    }

    #[test]
    fn rows_keep_their_numbers_under_the_union_of_columns() {
        let (ours, mut theirs) = (results(), results());
        theirs.columns[0].name = "snow".into();
        let both = combine(&[("a".into(), ours), ("b".into(), theirs)]).unwrap();
        let names: Vec<&str> = both.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["fog", "shot_noise", "snow"]);
        assert_eq!(both.rows[3].label, "paint (b)");
        assert_eq!(both.rows[3].by_domain, [None, Some(58.0), Some(70.0)]);
        let timing = CellTiming {
            cell: "c".into(),
            label: "paint".into(),
            device: "cpu".into(),
            ms_per_image: 2.0,
            peak_memory_mib: None,
        };
        let times = combine_timings(&[("a".into(), Vec::new()), ("b".into(), vec![timing])]);
        assert_eq!(times[0].label, both.rows[3].label);
        assert!(combine(&[]).is_none());
    }
}
