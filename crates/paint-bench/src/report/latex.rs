//! The table of a benchmark as LaTeX.

use std::fmt::Write as _;

use paint_files::printable;
use paint_run::escape::latex;
use paint_run::metric::Rate;

use super::notice::{notice, title};
use super::number::{decimal, spread};
use crate::grid::{Origin, Results};

/// The table for a paper, the best of each column in bold. What it needs and what its rows are stands in comments
/// above it.
pub fn results_latex(results: &Results) -> String {
    let mut text = String::from("% Needs \\usepackage{booktabs}.\n");
    let mut comment = |line: &str| {
        let _ = writeln!(text, "% {}", printable(line));
    };
    let (hash, precision) = (&results.hash, results.precision_name());
    comment(&format!("{}, protocol {hash}, {precision}; made by:", title(results)));
    results.command.lines().for_each(&mut comment);
    if results.mixed {
        comment("The rows are not of one protocol and precision, so none is the best:");
        for row in &results.rows {
            if let Some(Origin { protocol, precision }) = &row.origin {
                comment(&format!("{}: protocol {protocol}, {precision}", row.label));
            }
        }
    }
    if results.rate != Rate::Accuracy {
        comment(&format!("{} in percent", results.rate.title()));
    }
    notice(results).iter().for_each(|notice| comment(notice));
    results.failed().iter().for_each(|count| comment(count));
    for row in results.rows.iter().filter(|row| !row.setup().is_empty()) {
        comment(&format!("{}: {}", row.label, row.setup()));
    }
    let _ = write!(
        text,
        "\\begin{{tabular}}{{l{}}}\n\\toprule\nmethod",
        "r".repeat(results.columns.len() + 1)
    );
    for column in &results.columns {
        let _ = write!(text, " & {}", latex(&column.name));
    }
    text.push_str(" & mean \\\\\n\\midrule\n");
    let bold = |is_best: bool, cell: String| {
        if is_best { format!("\\textbf{{{cell}}}") } else { cell }
    };
    for row in &results.rows {
        text.push_str(&latex(&row.label));
        for (column, value) in row.by_domain.iter().enumerate() {
            let is_best = value.is_some() && *value == results.best_of(column);
            let _ = write!(text, " & {}", bold(is_best, decimal(*value, 1)));
        }
        let is_best = Some(row.accuracy.mean) == results.best();
        let mean = bold(is_best, spread(row.accuracy, "$\\pm$"));
        let _ = writeln!(text, " & {mean} \\\\");
    }
    text + "\\bottomrule\n\\end{tabular}\n"
}

#[cfg(test)]
mod tests {
    use super::super::sample::{hostile, results};
    use super::*;

    #[test]
    fn the_best_of_each_column_is_bold_between_the_rules_of_booktabs() {
        let latex = results_latex(&results());
        assert!(latex.starts_with("% Needs \\usepackage{booktabs}.\n"), "{latex}");
        assert!(latex.contains("% paint: paper_adam, eta=0.5\n"), "{latex}");
        assert!(latex.contains("\\toprule\nmethod & fog & shot\\_noise & mean \\\\\n\\midrule\n"));
        assert!(latex.contains("source & 50.0 & \\textbf{60.0} & 55.00"), "{latex}");
        assert!(latex.contains("paint & \\textbf{70.0} & 58.0 & \\textbf{64.00"), "{latex}");
        assert!(latex.ends_with("\\bottomrule\n\\end{tabular}\n"), "{latex}");
    }

    #[test]
    fn the_smallest_error_of_each_column_is_bold() {
        let latex = results_latex(&results().shown_as(Rate::Error));
        assert!(latex.contains("% Error in percent\n"), "{latex}");
        assert!(latex.contains("source & 50.0 & \\textbf{40.0} & 45.00"), "{latex}");
        assert!(latex.contains("paint & \\textbf{30.0} & 42.0 & \\textbf{36.00"), "{latex}");
    }

    #[test]
    fn hostile_names_end_no_comment_and_no_row() {
        let (plain, hostile) = (results_latex(&results()), results_latex(&hostile()));
        assert_eq!(hostile.lines().count(), plain.lines().count(), "{hostile}");
        let comments = |text: &str| text.lines().filter(|line| line.starts_with('%')).count();
        assert_eq!(comments(&hostile), comments(&plain), "{hostile}");
        let body = hostile.split("\\midrule").nth(1).unwrap();
        assert!(body.contains("\\%") && !body.replace("\\$", "").contains("$x"), "{body}");
    }

    #[test]
    fn rows_of_several_protocols_have_no_best() {
        let mixed = Results { mixed: true, ..results() };
        assert!(!results_latex(&mixed).contains("textbf"));
    }
}
