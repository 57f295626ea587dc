//! The table of a benchmark, and what stands beside it, as Markdown.

use std::fmt::Write as _;

use paint_run::escape::{markdown, markdown_code};
use paint_run::metric::Glance;

use super::compare::{Comparison, Matched};
use super::notice::{notice, title};
use super::number::{FIGURES, decimal, signed, spread};
use super::sweep::{Curve, Sweep, sweeps};
use crate::grid::{MIN_PAIRS, Results, Row};

/// A table: names on the left, as many as there are, and numbers on the right.
fn table(names: &[&str], numbers: &[&str], lines: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut text = line(&mut names.iter().chain(numbers).map(|head| markdown(head)));
    let _ = writeln!(text, "|{}{}", "---|".repeat(names.len()), "---:|".repeat(numbers.len()));
    for cells in lines {
        text.push_str(&line(&mut cells.iter().map(|cell| markdown(cell))));
    }
    text
}

/// Everything that a benchmark gave, for people.
pub fn results_markdown(results: &Results, comparisons: &[Comparison]) -> String {
    let protocol = &results.protocol;
    let mut text = format!("# {}\n\n", markdown(&title(results)));
    if let Some(notice) = notice(results) {
        let _ = writeln!(text, "> **{}**\n", markdown(&notice));
    }
    let images = results.images.map_or_else(String::new, |n| format!("{n} images per visit. "));
    let _ = writeln!(
        text,
        "{}. {images}{} in percent. Protocol {}, weights {}, {}.\n",
        markdown(&protocol.what),
        results.rate.title(),
        markdown_code(&results.hash),
        markdown(&protocol.model.tag),
        results.precision_name(),
    );
    for command in results.command.lines() {
        let _ = writeln!(text, "    {}", paint_files::printable(command));
    }
    let names = results.columns.iter().map(|column| column.name.as_str());
    let numbers: Vec<&str> = names.chain(["mean"]).collect();
    let accuracy = results.rows.iter().map(|row| {
        let cells = row.by_domain.iter().map(|value| decimal(*value, 1));
        let names = [row.label.clone(), row.setup()];
        names.into_iter().chain(cells).chain([spread(row.accuracy, "±")]).collect()
    });
    let _ = write!(text, "\n{}", table(&["row", "settings"], &numbers, accuracy));
    let figures = results.rows.iter().map(|row| {
        let cells = FIGURES.iter().map(|figure| (figure.cell)(row));
        [row.label.clone()].into_iter().chain(cells).collect()
    });
    let _ = write!(text, "\n{}", table(&["row"], &FIGURES.map(|figure| figure.head), figures));
    text.push_str(&significance(results));
    for sweep in sweeps(results) {
        text.push_str(&by_value(&sweep, &sweep.curves(results, comparisons)));
    }
    let (name, title) = (results.rate.name(), results.rate.title());
    text.push_str(&curves(results, &format!("Clean {name} after each domain"), |g| g.clean));
    let learnt = format!("Clean {name} after each domain, with a prompt learnt from clean images");
    text.push_str(&curves(results, &learnt, |g| g.learnt));
    text.push_str(&curves(results, &format!("{title} on the domains so far"), |g| g.previous));
    if let Some(count) = results.failed() {
        let _ = writeln!(text, "\n**{count}.** Means are over the others.\n");
        for failure in &results.failures {
            let _ = writeln!(text, "- {}: {}", markdown(&failure.run()), markdown(&failure.error));
        }
    }
    comparisons.iter().for_each(|comparison| text.push_str(&beside_the_paper(comparison)));
    text
}

/// The last row against the others.
fn significance(results: &Results) -> String {
    if results.significance.is_empty() {
        return String::new();
    }
    let lines = results.significance.iter().map(|test| {
        let margin = test.margin.map_or_else(|| "-".into(), |margin| format!("± {margin:.2}"));
        let difference = signed(Some(test.difference), 2);
        let pairs = test.pairs.to_string();
        let names = [test.label.clone(), test.against.clone()];
        names.into_iter().chain([pairs, difference, margin, decimal(test.p, 4)]).collect()
    });
    let numbers = ["pairs", "difference", "95 %", "p"];
    let mut text = format!("\n{}", table(&["row", "against"], &numbers, lines));
    if results.significance.iter().any(|test| test.p.is_none()) {
        let _ = writeln!(
            text,
            "\nA test needs at least {MIN_PAIRS} pairs (`--seeds 0..{}`).",
            MIN_PAIRS - 1
        );
    }
    text
}

/// One setting at several values, by group of corruptions; nothing where the domains have no groups, because the table
/// of all rows has the means.
fn by_value(sweep: &Sweep<'_>, curves: &[Curve]) -> String {
    if curves.len() < 2 {
        return String::new();
    }
    let heads: Vec<String> = curves
        .iter()
        .flat_map(|curve| {
            let paper = curve.has_paper().then(|| format!("{}, paper", curve.name));
            [curve.name.to_owned()].into_iter().chain(paper)
        })
        .collect();
    let lines = sweep.points.iter().enumerate().map(|(at, (value, _))| {
        let cells = curves.iter().flat_map(|curve| {
            let paper = curve.has_paper().then(|| decimal(curve.paper[at], 2));
            [decimal(curve.ours[at], 2)].into_iter().chain(paper)
        });
        [value.to_string()].into_iter().chain(cells).collect()
    });
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    format!(
        "\n## What {} does, by group of corruptions\n\n{}",
        markdown(sweep.key),
        table(&[sweep.key], &heads, lines)
    )
}

/// What a probe saw after each visit; nothing where there was no probe.
fn curves(results: &Results, title: &str, value: fn(&Glance) -> Option<f64>) -> String {
    let seen = |row: &&Row| row.glances.iter().any(|glance| value(glance).is_some());
    let rows: Vec<&Row> = results.rows.iter().filter(seen).collect();
    let Some(first) = rows.first() else { return String::new() };
    let names: Vec<&str> = results.visited().take(first.glances.len()).collect();
    let lines = rows.into_iter().map(|row| {
        let cells = row.glances.iter().map(|glance| decimal(value(glance), 1)).take(names.len());
        [row.label.clone()].into_iter().chain(cells).collect()
    });
    format!("\n## {title}\n\n{}", table(&["row"], &names, lines))
}

/// Our rows beside the paper's, and what differs between the protocols.
fn beside_the_paper(comparison: &Comparison) -> String {
    let lines = comparison.rows.iter().map(|row| {
        let names = [row.label.clone(), row.backbone.clone().unwrap_or_default()];
        names.into_iter().chain(comparison.cells(row)).collect()
    });
    let mut text = format!(
        "\n## Beside the paper: {}\n\n{}",
        comparison.reference.what,
        table(&["row", "paper's backbone"], comparison.heads(), lines)
    );
    if comparison.matched().next().is_some() {
        let lines = comparison.matched().map(|(label, matched)| {
            [label.to_owned()].into_iter().chain(matched.cells()).collect()
        });
        let _ = write!(text, "\n{}", table(&["row"], &Matched::HEADS, lines));
    }
    if !comparison.differences.is_empty() {
        text.push_str(
            "\n**These numbers are not of one protocol.** Ours differs from the paper's:\n\n",
        );
        for difference in &comparison.differences {
            let _ = writeln!(text, "- {}", markdown_code(&difference.to_string()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use paint_run::metric::Rate;

    use super::super::sample::{hostile, results, swept};
    use super::*;
    use crate::grid::paired;

    #[test]
    fn a_sweep_has_a_table_by_group_beside_the_papers_where_domains_have_groups() {
        let mut results = swept("prompt_length", &[0.0, 2.0, 4.0]);
        let paper = [Comparison::new(&results, "prompt-length").unwrap()];
        let text = results_markdown(&results, &paper);
        assert!(
            text.contains(
                "| prompt_length | noise | noise, paper | weather | weather, paper | mean | mean, paper |\n"
            ),
            "{text}"
        );
        assert!(text.contains("| 2 | 58.00 | 56.88 | 70.00 | 67.24 | 64.00 | 60.31 |\n"), "{text}");
        let text = results_markdown(&results, &[]);
        assert!(text.contains("| 2 | 58.00 | 70.00 | 64.00 |\n"), "{text}");
        results.columns[0].name = "sketch".into();
        assert!(!results_markdown(&results, &paper).contains("by group"));
    }

    #[test]
    fn a_row_names_its_preset_and_what_was_changed() {
        let text = results_markdown(&results(), &[]);
        assert!(
            text.contains(
                "| row | settings | fog | shot_noise | mean |\n|---|---|---:|---:|---:|\n"
            )
        );
        assert!(text.contains("| source |  | 50.0 | 60.0 | 55.00 ± 7.07 |\n"), "{text}");
        assert!(text.contains("| paint | paper_adam, eta=0.5 | 70.0 | 58.0 |"), "{text}");
    }

    #[test]
    fn errors_replace_accuracies_and_differences_change_sign() {
        let mut results = results();
        results.significance = vec![paired("paint", "source", &[8.0, 10.0])];
        results.rows[1].glances =
            vec![Glance { after: 0, clean: Some(91.0), learnt: Some(94.0), previous: None }];
        let results = results.shown_as(Rate::Error);
        let text = results_markdown(&results, &[Comparison::new(&results, "table1").unwrap()]);
        assert!(text.contains("Error in percent."), "{text}");
        assert!(text.contains("| source |  | 50.0 | 40.0 | 45.00 ± 7.07 |\n"), "{text}");
        assert!(text.contains("| paint | source | 2 | -9.00 |"), "{text}");
        assert!(text.contains("## Clean error after each domain\n"), "{text}");
        assert!(text.contains("| paint | 9.0 |\n"), "{text}");
        assert!(text.contains("learnt from clean images\n\n| row | fog |\n"), "{text}");
        assert!(text.contains("| paint | 6.0 |\n"), "{text}");
        assert!(text.contains("| paint | ViT-B/16 | 36.00 | 8.00 | +28.00 |"), "{text}");
        assert!(!text.contains("ccuracy"), "{text}");
    }

    #[test]
    fn what_was_seen_after_each_domain_is_a_table_of_its_own() {
        let mut results = results();
        assert!(!results_markdown(&results, &[]).contains("after each domain"));
        let glance =
            |after, clean| Glance { after, clean: Some(clean), learnt: None, previous: None };
        results.rows[1].glances = vec![glance(0, 91.0), glance(1, 88.5)];
        let text = results_markdown(&results, &[]);
        assert!(text.contains("domain\n\n| row | fog | shot_noise |\n"), "{text}");
        assert!(text.contains("| paint | 91.0 | 88.5 |"), "{text}");
        assert!(!text.contains("domains so far") && !text.contains("learnt"), "{text}");
    }

    #[test]
    fn two_runs_have_a_difference_and_a_word_on_the_missing_test() {
        let mut results = results();
        results.significance = vec![paired("paint", "source", &[8.0, 10.0])];
        let text = results_markdown(&results, &[]);
        assert!(
            text.contains("| paint | source | 2 | +9.00 | - | - |\n\nA test needs at least 3"),
            "{text}"
        );
        results.significance = vec![paired("paint", "source", &[8.0, 10.0, 9.0])];
        assert!(!results_markdown(&results, &[]).contains("A test needs"));
    }

    #[test]
    fn hostile_names_bring_no_markup_and_no_line() {
        let (plain, hostile) =
            (results_markdown(&results(), &[]), results_markdown(&hostile(), &[]));
        assert_eq!(hostile.lines().count(), plain.lines().count(), "{hostile}");
        assert!(!hostile.contains("<img") && !hostile.contains('\u{1b}'), "{hostile}");
        let bars = |text: &str| text.replace("\\|", "").matches('|').count();
        assert_eq!(bars(&hostile), bars(&plain), "{hostile}");
    }

    #[test]
    fn the_paper_stands_beside_with_the_difference_and_what_differs() {
        let results = results();
        let text = beside_the_paper(&Comparison::new(&results, "table1").unwrap());
        assert!(text.contains("| paint | ViT-B/16 | 64.00 | 92.00 | -28.00 |"), "{text}");
        assert!(text.contains("not of one protocol"), "{text}");
        assert!(text.contains("data.name: \"embedded\" in place of \"cifar10-c\""), "{text}");
    }

    #[test]
    fn prompts_found_again_stand_beside_the_papers() {
        let mut results = results();
        let row = &mut results.rows[1];
        row.label = "PAINT-Query".into();
        row.prompts = Some(4.0);
        row.matching_per_batch = Some(26.7);
        let text = beside_the_paper(&Comparison::new(&results, "matching").unwrap());
        assert!(text.contains("| PAINT-Query | 4.0 | 11.0 | 26.7 | - | 53.3 |"), "{text}");
        assert!(text.contains("| PAINT-Oracle | - | 15.0 | - | - | 100.0 |"), "{text}");
    }
}
