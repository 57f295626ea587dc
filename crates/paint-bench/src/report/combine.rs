//! Several results in one table.

use crate::grid::{CellTiming, Column, Results, Row};

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

/// All rows, each with the name of its folder where there are several, over all columns. The protocol is the first one's;
/// [`super::mixture_warnings`] tells where that is not everybody's.
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
            rows.push(row);
        }
    }
    let significance = if all.len() > 1 { Vec::new() } else { first.significance.clone() };
    let failures = all.iter().flat_map(|(_, results)| results.failures.clone()).collect();
    let command = all.iter().map(|(_, results)| results.command.as_str()).collect::<Vec<_>>();
    let command = command.join("\n");
    let alike = |other: &(String, Results)| other.1.images == first.images;
    let images = first.images.filter(|_| all.iter().all(alike));
    Some(Results { command, images, columns, rows, significance, failures, ..first.clone() })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

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
