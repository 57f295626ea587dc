//! The table of a benchmark for a terminal.

use std::fmt::Write as _;

use paint_files::printable;
use paint_run::metric::Rate;
use paint_run::table::aligned;

use super::notice::notice;
use super::number::{decimal, spread};
use super::sweep::{groups, mean_over, sweeps};
use crate::grid::Results;

/// A line for each domain, a column for each row of the table, and below them the settings of the rows. A sweep also
/// has a line for each group of corruptions.
pub fn results_terminal(results: &Results) -> String {
    let head = match results.rate {
        Rate::Accuracy => "domain",
        Rate::Error => "error in %",
    };
    let mut lines = vec![vec![head.to_owned()]];
    lines[0].extend(results.rows.iter().map(|row| row.label.clone()));
    for (c, column) in results.columns.iter().enumerate() {
        let cells = results.rows.iter().map(|row| decimal(row.by_domain[c], 1));
        lines.push([column.name.clone()].into_iter().chain(cells).collect());
    }
    let groups = if sweeps(results).is_empty() { Vec::new() } else { groups(results) };
    for (group, columns) in groups {
        let cells = results.rows.iter().map(|row| decimal(mean_over(row, &columns), 2));
        lines.push([format!("mean of {}", group.name())].into_iter().chain(cells).collect());
    }
    let means = results.rows.iter().map(|row| spread(row.accuracy, "±"));
    lines.push(["mean".to_owned()].into_iter().chain(means).collect());
    let mut text = aligned(&lines);
    let settings = results.rows.iter().filter(|row| !row.setup().is_empty());
    for (i, row) in settings.enumerate() {
        let gap = if i == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{}: {}", printable(&row.label), printable(&row.setup()));
    }
    if let Some(notice) = notice(results) {
        let _ = writeln!(text, "\n{}", printable(&notice));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample::{hostile, results, swept};
    use super::*;

    #[test]
    fn a_sweep_ends_with_the_means_of_the_groups() {
        let text = results_terminal(&swept("prompt_length", &[0.0, 2.0, 4.0]));
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[4], ["mean", "of", "noise", "58.00", "58.00", "58.00"], "{text}");
        assert_eq!(lines[5][2], "weather", "{text}");
        assert!(!results_terminal(&results()).contains("mean of"));
    }

    #[test]
    fn the_settings_of_a_row_stand_below_its_numbers() {
        let text = results_terminal(&results());
        assert!(
            text.contains("mean        55.00 ± 7.07  64.00 ± 8.49\n\npaint: paper_adam, eta=0.5\n"),
            "{text}"
        );
    }

    #[test]
    fn a_terminal_is_told_nothing_to_obey() {
        let text = results_terminal(&hostile());
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}
