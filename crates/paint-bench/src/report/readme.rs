//! The results table of a README, generated from a folder of results so that the two cannot disagree.

use std::cmp::Reverse;
use std::fmt::Write as _;

use paint_run::escape::{markdown, markdown_code};
use paint_run::{Error, Result};

use super::notice::notice;
use super::number::spread;
use crate::grid::{Results, Row};

const BEGIN: &str = "<!-- results: generated, see results/README.md -->";
const END: &str = "<!-- end of results -->";

/// The section: one table with a column for each result, by the name of its folder, and what each of them is.
pub fn readme_section(all: &[(String, Results)]) -> String {
    let mut text = String::from("\n| accuracy |");
    for (folder, _) in all {
        let _ = write!(text, " [{folder}](results/{folder}/results.md) |");
    }
    let _ = writeln!(text, "\n|---|{}", "---:|".repeat(all.len()));
    for label in labels(all) {
        let _ = write!(text, "| {} |", markdown(label));
        for (_, results) in all {
            let _ = write!(text, " {} |", cell(results, label));
        }
        text.push('\n');
    }
    text.push('\n');
    for (folder, results) in all {
        text.push_str(&item(&description(folder, results)));
    }
    text
}

/// The longest line of an item.
const COLUMNS: usize = 110;

/// An item of a list, in lines of the length that people write.
fn item(text: &str) -> String {
    let mut lines = vec![String::from("-")];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n") + "\n"
}

/// The rows of all results, in the order of the longest.
fn labels(all: &[(String, Results)]) -> Vec<&str> {
    let mut longest: Vec<&Results> = all.iter().map(|(_, results)| results).collect();
    longest.sort_by_key(|results| Reverse(results.rows.len()));
    let mut labels = Vec::new();
    for row in longest.into_iter().flat_map(|results| &results.rows) {
        if !labels.contains(&row.label.as_str()) {
            labels.push(&row.label);
        }
    }
    labels
}

/// A row's accuracy, the best in bold, and on clean images at the end where that was looked at.
fn cell(results: &Results, label: &str) -> String {
    let Some(row) = results.rows.iter().find(|row| row.label == label) else {
        return String::new();
    };
    let accuracy = spread(row.accuracy, "±");
    let is_best = Some(row.accuracy.mean) == results.best();
    let accuracy = if is_best { format!("**{accuracy}**") } else { accuracy };
    match last_clean(row) {
        Some(clean) => format!("{accuracy} ({clean:.1})"),
        None => accuracy,
    }
}

fn last_clean(row: &Row) -> Option<f64> {
    row.glances.last().and_then(|glance| glance.clean)
}

fn description(folder: &str, results: &Results) -> String {
    let protocol = &results.protocol;
    let limit = protocol.scenario.limit.map(|limit| limit as u64);
    let each = results
        .images
        .or(limit)
        .map_or_else(|| "all images".into(), |images| format!("{images} images"));
    let runs = results.rows.iter().map(|row| row.accuracy.runs).max().unwrap_or(1);
    let runs = if runs > 1 {
        format!(", mean and standard deviation of {runs} runs")
    } else {
        String::new()
    };
    let forgetting = results.rows.iter().any(|row| last_clean(row).is_some());
    let clean = if forgetting { "; in brackets, on clean images at the end" } else { "" };
    let notice =
        notice(results).map_or_else(String::new, |notice| format!(" {}", markdown(&notice)));
    format!(
        "{folder}: protocol {} [{}](results/{folder}/protocol.toml), {each} per visit, {} weights, {}{runs}{clean}. {}{notice}",
        markdown_code(&protocol.name),
        markdown_code(&results.hash),
        markdown(&protocol.model.tag),
        results.precision_name(),
        settings(results),
    )
}

/// The settings of the rows, those that most rows have first and without their names.
fn settings(results: &Results) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for row in results.rows.iter().filter(|row| !row.setup().is_empty()) {
        match groups.iter_mut().find(|(setup, _)| *setup == row.setup()) {
            Some((_, labels)) => labels.push(&row.label),
            None => groups.push((row.setup(), vec![&row.label])),
        }
    }
    groups.sort_by_key(|(_, labels)| Reverse(labels.len()));
    let phrase = |(at, (setup, labels)): (usize, &(String, Vec<&str>))| {
        let setup = markdown_code(setup);
        match (at, labels.len()) {
            (0, 2..) => setup,
            _ => format!("{setup} ({})", markdown(&labels.join(", "))),
        }
    };
    let phrases: Vec<String> = groups.iter().enumerate().map(phrase).collect();
    if phrases.is_empty() { String::new() } else { format!("Settings: {}.", phrases.join("; ")) }
}

/// `readme` with its section replaced; its marks must be there.
pub fn with_readme_section(readme: &str, section: &str) -> Result<String> {
    let marks =
        || Error::config(format!("the README has no section between {BEGIN:?} and {END:?}"));
    let (before, rest) = readme.split_once(BEGIN).ok_or_else(marks)?;
    let (_, after) = rest.split_once(END).ok_or_else(marks)?;
    Ok(format!("{before}{BEGIN}\n{section}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::sample::results;
    use super::*;
    use paint_run::metric::Glance;

    #[test]
    fn a_section_has_a_column_for_each_result_the_hash_and_the_best_in_bold() {
        let (both, mut one) = (results(), results());
        one.rows.remove(0);
        one.rows[0].glances =
            vec![Glance { after: 1, clean: Some(91.25), learnt: None, previous: None }];
        let section = readme_section(&[("one".into(), one), ("both".into(), both.clone())]);
        let head = "| accuracy | [one](results/one/results.md) | [both](results/both/results.md) |";
        assert!(section.contains(head), "{section}");
        assert!(section.contains("\n| source |  | 55.00 ± 7.07 |\n"), "{section}");
        assert!(section.contains("\n| paint | **64.00 ± 8.49** (91.2) | **64.00 ± 8.49** |\n"));
        let list = section.split("\n\n- one").nth(1).unwrap();
        assert!(list.lines().all(|line| line.chars().count() <= COLUMNS), "{list}");
        let list = list.replace("\n  ", " ");
        assert!(list.contains(&format!("[`{}`](results/both/protocol.toml), 50", both.hash)));
        assert!(
            list.contains("clean images at the end. Settings: `paper_adam, eta=0.5` (paint).\n")
        );
    }

    #[test]
    fn only_the_section_of_a_readme_changes() {
        let readme = format!("# A\n{BEGIN}\nold\n{END}\nrest\n");
        let new = with_readme_section(&readme, "new").unwrap();
        assert_eq!(new, format!("# A\n{BEGIN}\nnew\n{END}\nrest\n"));
        assert_eq!(with_readme_section(&new, "new").unwrap(), new);
        assert!(with_readme_section("# A", "new").is_err());
    }
}
