//! The table of a benchmark as text: CSV, Markdown, LaTeX with the best in bold.

use std::fmt::Write as _;

use super::compare::Comparison;
use super::notice::{notice, title};
use crate::Result;
use crate::grid::{Results, Row, Spread};
use paint_run::probe::Glance;
use paint_run::table::{aligned, quoted};

/// A mean with its deviation.
pub(super) fn spread(value: Spread, plus_minus: &str) -> String {
    let std = value.std.map_or_else(String::new, |std| format!(" {plus_minus} {std:.2}"));
    format!("{:.2}{std}", value.mean)
}

/// A figure, or a dash where there is none.
pub(super) fn decimal(value: Option<f64>, digits: usize) -> String {
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
    let mut text = format!("# {}\n\n", title(results));
    if let Some(notice) = notice(results) {
        let _ = writeln!(text, "> **{notice}**\n");
    }
    let images = results.images.map_or_else(String::new, |n| format!("{n} images a visit. "));
    let _ = write!(
        text,
        "{}. {images}Accuracy in percent. Protocol `{}`, weights {}, {}.\n\n    {}\n\n",
        protocol.what,
        results.hash,
        protocol.model.tag,
        results.precision_name(),
        results.command
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
    text.push_str(&curves(results, "Clean accuracy after each domain", |g| g.clean));
    text.push_str(&curves(results, "Accuracy on the domains so far", |g| g.previous));
    if let Some(count) = results.failed() {
        let _ = writeln!(text, "\n**{count}.** Means are over the others.\n");
        for failure in &results.failures {
            let _ = writeln!(text, "- {}: {}", failure.run(), failure.error);
        }
    }
    for comparison in comparisons {
        text.push_str(&comparison.markdown());
    }
    text
}

/// What was seen after each visit; nothing where nobody looked.
fn curves(results: &Results, title: &str, value: fn(&Glance) -> Option<f64>) -> String {
    let seen = |row: &&Row| row.glances.iter().any(|glance| value(glance).is_some());
    let rows: Vec<&Row> = results.rows.iter().filter(seen).collect();
    let Some(first) = rows.first() else { return String::new() };
    let names: Vec<&str> = results.visited().take(first.glances.len()).collect();
    let rule = "---:|".repeat(names.len());
    let mut text = format!("\n## {title}\n\n| row | {} |\n|---|{rule}\n", names.join(" | "));
    for row in rows {
        let cells = row.glances.iter().map(|glance| decimal(value(glance), 1));
        let cells: Vec<String> = cells.take(names.len()).collect();
        let _ = writeln!(text, "| {} | {} |", row.label, cells.join(" | "));
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
    let notice = notice(results).map_or_else(String::new, |notice| format!("\n{notice}\n"));
    aligned(&rows) + &notice
}

/// The table for a paper, the best of each column in bold.
pub fn results_latex(results: &Results) -> String {
    let escape = |text: &str| text.replace('_', "\\_").replace('%', "\\%").replace('&', "\\&");
    let mut text = format!(
        "% protocol {} {}\n{}\\begin{{tabular}}{{l{}}}\n\\hline\n",
        results.protocol.name,
        results.hash,
        notice(results).map_or_else(String::new, |notice| format!("% {notice}\n")),
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
    let is_other =
        |other: &&&Results| (&other.hash, &other.precision) != (&first.hash, &first.precision);
    for other in others.iter().filter(is_other) {
        let differences = other.protocol.differences(&first.protocol)?;
        let mut told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        if other.precision != first.precision {
            let [ours, theirs] = [other, first].map(|results| results.precision_name());
            told.push(format!("precision: {ours} in place of {theirs}"));
        }
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
    use crate::protocol::Protocol;

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
            precision: None,
            command: "paint bench".into(),
            target: None,
            protocol,
            images: Some(50),
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
    fn what_was_seen_after_each_domain_is_a_table_of_its_own() {
        let mut results = results();
        assert!(!results_markdown(&results, &[]).contains("after each domain"));
        let glance = |after, clean| Glance { after, clean: Some(clean), previous: None };
        results.rows[1].glances = vec![glance(0, 91.0), glance(1, 88.5)];
        let text = results_markdown(&results, &[]);
        assert!(text.contains("domain\n\n| row | fog | shot_noise |\n"), "{text}");
        assert!(text.contains("| paint | 91.0 | 88.5 |"), "{text}");
        assert!(!text.contains("domains so far"), "{text}");
    }

    #[test]
    fn results_of_two_protocols_are_warned_of_by_the_key_that_differs() {
        let (ours, mut theirs) = (results(), results());
        assert!(mixture_warnings(&[&ours, &theirs]).unwrap().is_empty());
        theirs.protocol.scenario.batch_size = 1;
        theirs.hash = theirs.protocol.hash().unwrap();
        theirs.precision = Some("bf16".into());
        let warnings = mixture_warnings(&[&ours, &theirs]).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("scenario.batch_size: 1 in place of 50"), "{warnings:?}");
        assert!(warnings[0].ends_with("precision: bf16 in place of f32"), "{warnings:?}");
    }
}
