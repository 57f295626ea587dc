//! The table of a benchmark as text: CSV, Markdown, LaTeX with the best in bold, and beside the paper's numbers.

use std::fmt::Write as _;

use super::table::{aligned, quoted};
use crate::Result;
use crate::grid::{Results, Row, Spread};
use crate::protocol::{Difference, Protocol};
use crate::reference::{Reference, reference};

/// Our rows beside the paper's.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The paper's table.
    pub reference: Reference,
    /// Row by row of the paper, with ours where we have it.
    pub rows: Vec<ComparedRow>,
    /// What in the protocols differs.
    pub differences: Vec<Difference>,
}

/// One row of the paper's and ours, mean accuracies in percent.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRow {
    /// What both are called.
    pub label: String,
    /// The paper's backbone, where it has several.
    pub backbone: Option<String>,
    /// The paper's.
    pub paper: f64,
    /// Ours.
    pub ours: Option<f64>,
}

impl Comparison {
    /// `results` beside the table or figure `name`: means of the stream, or for the figures of forgetting the means of the
    /// curves.
    pub fn new(results: &Results, name: &str) -> Result<Self> {
        let reference = reference(name)?;
        let shipped = Protocol::find(reference.protocol)?;
        let ours = |label: &str| {
            let row = results.row(label)?;
            let curve = |value: fn(&crate::probe::Glance) -> Option<f64>| {
                let values: Vec<f64> = row.glances.iter().filter_map(value).collect();
                Spread::of(&values).map(|spread| spread.mean)
            };
            match name {
                "antiforget-previous" => curve(|glance| glance.previous),
                _ if name.starts_with("antiforget") => curve(|glance| glance.clean),
                _ => Some(row.accuracy.mean),
            }
        };
        let row = |row: &crate::reference::ReferenceRow| {
            Some(ComparedRow {
                label: row.label.clone(),
                backbone: row.backbone.clone(),
                paper: row.accuracy.or_else(|| Some(Spread::of(&row.cells)?.mean))?,
                ours: ours(&row.label),
            })
        };
        let rows = reference.rows.iter().filter_map(row).collect();
        let differences = results.protocol.differences_from_paper(&shipped)?;
        Ok(Self { reference, rows, differences })
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "\n## Beside the paper: {}\n\n| row | backbone | ours | paper | difference |\n|---|---|---:|---:|---:|\n",
            self.reference.what
        );
        for row in &self.rows {
            let ours = row.ours.map_or_else(|| "-".into(), |ours| format!("{ours:.2}"));
            let difference =
                row.ours.map_or_else(|| "-".into(), |ours| format!("{:+.2}", ours - row.paper));
            let backbone = row.backbone.as_deref().unwrap_or("");
            let _ = writeln!(
                text,
                "| {} | {backbone} | {ours} | {:.2} | {difference} |",
                row.label, row.paper
            );
        }
        if !self.differences.is_empty() {
            text.push_str(
                "\n**These numbers are not of one protocol.** Ours, in place of the paper's:\n\n",
            );
            for difference in &self.differences {
                let _ = writeln!(text, "- `{difference}`");
            }
        }
        text
    }
}

/// A mean with its deviation.
pub(super) fn spread(value: Spread, plus_minus: &str) -> String {
    let std = value.std.map_or_else(String::new, |std| format!(" {plus_minus} {std:.2}"));
    format!("{:.2}{std}", value.mean)
}

fn decimal(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

/// Every figure, unrounded, one line a row.
pub fn results_csv(results: &Results) -> String {
    let mut text = String::from("protocol,label,method");
    for column in &results.columns {
        let _ = write!(text, ",{}", quoted(&column.name));
    }
    text.push_str(
        ",mean,std,runs,ece,nll,prompts,matching_per_batch,matching_per_domain,forwards,backwards,trainable\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in &results.rows {
        let _ = write!(text, "{},{},{}", results.hash, quoted(&row.label), row.method);
        for value in &row.by_domain {
            let _ = write!(text, ",{}", number(*value));
        }
        let cost = row.cost.as_ref();
        let _ = writeln!(
            text,
            ",{},{},{},{},{},{},{},{},{},{},{}",
            row.accuracy.mean,
            number(row.accuracy.std),
            row.accuracy.runs,
            row.ece,
            row.nll,
            number(row.prompts),
            number(row.matching_per_batch),
            number(row.matching_per_domain),
            number(cost.map(|cost| cost.forwards)),
            number(cost.map(|cost| cost.backwards)),
            cost.map_or_else(String::new, |cost| cost.trainable.to_string()),
        );
    }
    text
}

/// The table for people.
pub fn results_markdown(results: &Results, comparisons: &[Comparison]) -> String {
    let protocol = &results.protocol;
    let mut text = format!(
        "# {}\n\n{}. Accuracy in percent. Protocol `{}`, weights {}.\n\n    {}\n\n",
        protocol.name, protocol.what, results.hash, protocol.model.tag, results.command
    );
    let names = results.columns.iter().map(|column| column.name.as_str());
    let head: Vec<&str> = ["row"].into_iter().chain(names).chain(["mean"]).collect();
    let _ = writeln!(text, "| {} |\n|---|{}", head.join(" | "), "---:|".repeat(head.len() - 1));
    for row in &results.rows {
        let cells: Vec<String> = row.by_domain.iter().map(|value| decimal(*value, 1)).collect();
        let mean = spread(row.accuracy, "±");
        let _ = writeln!(text, "| {} | {} | {mean} |", row.label, cells.join(" | "));
    }
    text.push_str(
        "\n| row | ECE | NLL | prompts | matching, batches | matching, domains | forwards | backwards | trainable |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in &results.rows {
        text.push_str(&figures(row));
    }
    if !results.significance.is_empty() {
        text.push_str(
            "\n| row | against | pairs | difference | 95 % | p |\n|---|---|---:|---:|---:|---:|\n",
        );
        for test in &results.significance {
            let margin = test.margin.map_or_else(|| "-".into(), |m| format!("± {m:.2}"));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:+.2} | {margin} | {} |",
                test.label,
                test.against,
                test.pairs,
                test.difference,
                decimal(test.p, 4)
            );
        }
    }
    for failure in &results.failures {
        let _ = writeln!(
            text,
            "\n**{} (seed {}) failed**: {}",
            failure.label, failure.seed, failure.error
        );
    }
    for comparison in comparisons {
        text.push_str(&comparison.markdown());
    }
    text
}

fn figures(row: &Row) -> String {
    let cost = row.cost.as_ref();
    format!(
        "| {} | {:.2} | {:.3} | {} | {} | {} | {} | {} | {} |\n",
        row.label,
        row.ece,
        row.nll,
        decimal(row.prompts, 1),
        decimal(row.matching_per_batch, 1),
        decimal(row.matching_per_domain, 1),
        decimal(cost.map(|cost| cost.forwards), 2),
        decimal(cost.map(|cost| cost.backwards), 2),
        cost.map_or_else(|| "-".into(), |cost| cost.trainable.to_string()),
    )
}

/// The table for a terminal: a row for each domain, a column for each variant.
pub fn results_terminal(results: &Results) -> String {
    let mut rows = vec![vec!["domain".to_owned()]];
    rows[0].extend(results.rows.iter().map(|row| row.label.clone()));
    for (c, column) in results.columns.iter().enumerate() {
        let cells = results.rows.iter().map(|row| decimal(row.by_domain[c], 1));
        rows.push([column.name.clone()].into_iter().chain(cells).collect());
    }
    let means = results.rows.iter().map(|row| spread(row.accuracy, "±"));
    rows.push(["mean".to_owned()].into_iter().chain(means).collect());
    aligned(&rows)
}

/// The table for a paper, the best of each column in bold.
pub fn results_latex(results: &Results) -> String {
    let escape = |text: &str| text.replace('_', "\\_").replace('%', "\\%").replace('&', "\\&");
    let mut text = format!(
        "% protocol {} {}\n\\begin{{tabular}}{{l{}}}\n\\hline\n",
        results.protocol.name,
        results.hash,
        "r".repeat(results.columns.len() + 1)
    );
    for column in &results.columns {
        let _ = write!(text, " & {}", escape(&column.name));
    }
    text.push_str(" & mean \\\\\n\\hline\n");
    let best = |values: Vec<Option<f64>>| values.into_iter().flatten().fold(f64::MIN, f64::max);
    let bests: Vec<f64> = (0..results.columns.len())
        .map(|c| best(results.rows.iter().map(|row| row.by_domain[c]).collect()))
        .collect();
    let best_mean = best(results.rows.iter().map(|row| Some(row.accuracy.mean)).collect());
    let bold = |is_best: bool, cell: String| {
        if is_best { format!("\\textbf{{{cell}}}") } else { cell }
    };
    for row in &results.rows {
        text.push_str(&escape(&row.label));
        for (value, best) in row.by_domain.iter().zip(&bests) {
            let _ = write!(text, " & {}", bold(*value == Some(*best), decimal(*value, 1)));
        }
        let mean = spread(row.accuracy, "$\\pm$");
        let _ = writeln!(text, " & {} \\\\", bold(row.accuracy.mean == best_mean, mean));
    }
    text + "\\hline\n\\end{tabular}\n"
}

/// What has to be said before results of several protocols stand side by side: nothing, if they are of one.
pub fn mixture_warnings(all: &[&Results]) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let Some((first, others)) = all.split_first() else { return Ok(warnings) };
    for other in others.iter().filter(|other| other.hash != first.hash) {
        let differences = other.protocol.differences(&first.protocol)?;
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        warnings.push(format!(
            "{} ({}) and {} ({}) are not of one protocol: {}",
            other.protocol.name,
            other.hash,
            first.protocol.name,
            first.hash,
            told.join("; ")
        ));
    }
    Ok(warnings)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::grid::Column;

    fn row(label: &str, cells: &[f64]) -> Row {
        Row {
            label: label.into(),
            method: "paint".into(),
            settings: serde_json::json!({"eta": 0.5}),
            accuracy: Spread::of(cells).unwrap(),
            by_domain: cells.iter().copied().map(Some).collect(),
            by_severity: Vec::new(),
            by_round: Vec::new(),
            ece: 3.0,
            nll: 0.5,
            prompts: None,
            matching_per_batch: None,
            matching_per_domain: None,
            cost: None,
            glances: Vec::new(),
        }
    }

    /// Two rows over two domains.
    pub(crate) fn results() -> Results {
        let protocol = Protocol::find("embedded").unwrap();
        Results {
            hash: protocol.hash().unwrap(),
            version: "0".into(),
            command: "paint bench".into(),
            protocol,
            columns: ["fog", "shot_noise"].map(|name| Column { name: name.into() }).into(),
            rows: vec![row("source", &[50.0, 60.0]), row("paint", &[70.0, 58.0])],
            significance: Vec::new(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn latex_has_the_best_of_each_column_in_bold() {
        let latex = results_latex(&results());
        assert!(latex.contains("& fog & shot\\_noise & mean"), "{latex}");
        assert!(latex.contains("source & 50.0 & \\textbf{60.0} & 55.00"), "{latex}");
        assert!(latex.contains("paint & \\textbf{70.0} & 58.0 & \\textbf{64.00"), "{latex}");
    }

    #[test]
    fn csv_keeps_every_digit_and_names_the_protocol() {
        let results = results();
        let csv = results_csv(&results);
        let line = format!("{},paint,paint,70,58,64,8.48528137423857,2,3,0.5,,,,,,", results.hash);
        assert!(csv.contains(&line), "{csv}");
    }

    #[test]
    fn the_paper_stands_beside_with_the_difference_and_what_differs() {
        let results = results();
        let comparison = Comparison::new(&results, "table1").unwrap();
        let text = results_markdown(&results, &[comparison]);
        assert!(text.contains("| paint | ViT-B/16 | 64.00 | 92.00 | -28.00 |"), "{text}");
        assert!(text.contains("not of one protocol"), "{text}");
        assert!(text.contains("data.name: \"embedded\" in place of \"cifar10-c\""), "{text}");
    }

    #[test]
    fn results_of_two_protocols_are_warned_of_by_the_key_that_differs() {
        let (ours, mut theirs) = (results(), results());
        assert!(mixture_warnings(&[&ours, &theirs]).unwrap().is_empty());
        theirs.protocol.scenario.batch_size = 1;
        theirs.hash = theirs.protocol.hash().unwrap();
        let warnings = mixture_warnings(&[&ours, &theirs]).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("scenario.batch_size: 1 in place of 50"), "{warnings:?}");
    }
}
