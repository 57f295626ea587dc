//! Several runs of one stream side by side: a row for each visit, a column for each method.

use std::fmt::Write as _;

use paint_files::printable;

use crate::escape;
use crate::metric::Rate;
use crate::summary::{DomainResult, Summary};

/// The label of a row: the severity is told where a run has several.
fn row_name(summary: &Summary, domain: &DomainResult) -> String {
    let one_severity = summary.domains.windows(2).all(|pair| pair[0].severity == pair[1].severity);
    match domain.severity {
        Some(severity) if !one_severity => format!("{} {severity}", domain.name),
        _ => domain.name.clone(),
    }
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.1}"))
}

/// Head, then one row for each visit, then the mean.
pub fn cells(runs: &[&Summary], rate: Rate) -> Vec<Vec<String>> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut rows = vec![
        [String::from("domain")]
            .into_iter()
            .chain(runs.iter().map(|run| run.method.clone()))
            .collect(),
    ];
    for (i, domain) in first.domains.iter().enumerate() {
        let accuracy = |run: &&Summary| run.domains.get(i)?.figures.accuracy;
        let figures = runs.iter().map(|run| percent(accuracy(run).map(|value| rate.of(value))));
        rows.push([row_name(first, domain)].into_iter().chain(figures).collect());
    }
    let mean = runs.iter().map(|run| percent(run.mean_accuracy.map(|value| rate.of(value))));
    rows.push([String::from("mean")].into_iter().chain(mean).collect());
    rows
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns).map(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect()
}

/// Accuracies or errors in percent, for a terminal.
pub fn terminal(runs: &[&Summary], rate: Rate) -> String {
    aligned(&cells(runs, rate))
}

/// A table with a rule below its head and above its last row.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let harmless =
        |row: &Vec<String>| row.iter().map(|cell| printable(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(harmless).collect();
    let widths = widths(&rows);
    let rule = "-".repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1));
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        if i == 1 || i + 1 == rows.len() {
            let _ = writeln!(text, "{rule}");
        }
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(c, (cell, &width))| match c {
                0 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}

/// Accuracies in percent, as a Markdown table.
pub fn markdown(runs: &[&Summary]) -> String {
    let mut text = String::new();
    for (i, row) in cells(runs, Rate::Accuracy).iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| escape::markdown(cell)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if i == 0 {
            let _ = writeln!(text, "|---|{}", "---:|".repeat(row.len() - 1));
        }
    }
    text
}

/// Every figure of every visit, one line each.
pub fn csv(runs: &[&Summary]) -> String {
    let mut text = String::from(
        "method,visit,domain,severity,samples,accuracy,error,ece,nll,prompts_allocated,ms_per_batch,images_per_s\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for run in runs {
        for (i, domain) in run.domains.iter().enumerate() {
            let severity =
                domain.severity.map_or_else(String::new, |severity| severity.to_string());
            let figures = &domain.figures;
            let _ = writeln!(
                text,
                "{},{i},{},{severity},{},{},{},{},{},{},{:.3},{:.1}",
                escape::csv(&run.method),
                escape::csv(&domain.name),
                figures.samples,
                number(figures.accuracy),
                number(figures.error),
                number(figures.ece),
                number(figures.nll),
                domain.prompts_allocated,
                domain.timing.ms_per_batch,
                domain.timing.images_per_s,
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Figures, RunTiming, Setup, Timing};

    /// A run with one visit for each accuracy.
    fn summary(method: &str, visits: &[(&str, u8, f64)]) -> Summary {
        let timing = Timing { ms_per_batch: 1.5, images_per_s: 20.0 };
        let figures = |accuracy: f64| Figures {
            samples: 10,
            accuracy: Some(accuracy),
            error: Some(100.0 - accuracy),
            ece: Some(2.0),
            nll: Some(0.5),
        };
        let mean = visits.iter().map(|visit| visit.2).sum::<f64>() / visits.len() as f64;
        Summary {
            method: method.into(),
            setup: Setup {
                dataset: "memory".into(),
                scenario: "continual".into(),
                batch_size: 5,
                limit: None,
                backbone: "vit".into(),
                weights_sha256: None,
                seed: 0,
                device: "cpu".into(),
                version: "0".into(),
            },
            mean_accuracy: Some(mean),
            mean_error: Some(100.0 - mean),
            overall: figures(mean),
            domains: visits
                .iter()
                .map(|(name, severity, accuracy)| DomainResult {
                    name: (*name).into(),
                    severity: Some(*severity),
                    figures: figures(*accuracy),
                    prompts_allocated: 1,
                    timing: timing.clone(),
                })
                .collect(),
            by_domain: Vec::new(),
            matching: None,
            glances: Vec::new(),
            cost: None,
            ece_bins: 15,
            logits_hash: "0".into(),
            timing: RunTiming { speed: timing, peak_memory_mib: None },
        }
    }

    #[test]
    fn a_terminal_table_aligns_methods_side_by_side() {
        let source = summary("source", &[("fog", 5, 50.0), ("snow", 5, 60.0)]);
        let paint = summary("paint", &[("fog", 5, 70.25), ("snow", 5, 100.0)]);
        let expected = "\
domain  source  paint
---------------------
fog       50.0   70.2
snow      60.0  100.0
---------------------
mean      55.0   85.1
";
        assert_eq!(terminal(&[&source, &paint], Rate::Accuracy), expected);
    }

    #[test]
    fn hostile_names_add_no_line_no_field_and_no_escape_sequence() {
        let run = summary("source", &[("fog\u{1b}[2J\n| <b>,\"", 5, 50.0)]);
        for (text, lines) in
            [(terminal(&[&run], Rate::Accuracy), 5), (markdown(&[&run]), 4), (csv(&[&run]), 2)]
        {
            assert_eq!(text.lines().count(), lines, "{text}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
        assert!(markdown(&[&run]).contains("\\| &lt;b&gt;"), "{}", markdown(&[&run]));
    }

    #[test]
    fn severities_are_told_where_they_differ_and_names_are_quoted() {
        let run = summary("source", &[("fog", 1, 50.0), ("a, \"b\"", 2, 60.0)]);
        assert!(markdown(&[&run]).starts_with("| domain | source |\n|---|---:|\n| fog 1 | 50.0 |"));
        let csv = csv(&[&run]);
        assert!(
            csv.contains("\nsource,1,\"a, \"\"b\"\"\",2,10,60,40,2,0.5,1,1.500,20.0\n"),
            "{csv}"
        );
    }
}
