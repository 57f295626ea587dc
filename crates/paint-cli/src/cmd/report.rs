//! `paint report`: results of benchmarks side by side, with a warning where they are not of one protocol.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use paint_bench::grid::{CellTiming, Results};
use paint_bench::report::html::{BenchPage, bench_page, picture};
use paint_bench::report::{
    Comparison, combine, combine_timings, mixture_warnings, readme_section, references,
    results_csv, results_latex, results_markdown, with_readme_section,
};
use paint_run::escape::markdown;
use paint_run::experiment::write_text;
use serde::Serialize;

use crate::flags::MetricFlag;
use crate::output::Output;

/// Put results of `paint bench` side by side, or into a README
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folders of `paint bench`, or a folder of them
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Write a page to this file
    #[arg(long)]
    html: Option<PathBuf>,
    /// Write a picture of every domain to this file
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Write every figure, unrounded, to this file
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write the table for a paper to this file
    #[arg(long)]
    latex: Option<PathBuf>,
    /// Rewrite the results section of this file, and print nothing
    #[arg(long, conflicts_with_all = ["html", "svg", "csv", "latex", "metric"])]
    readme: Option<PathBuf>,
    /// With --readme: change nothing, and fail if the section is stale
    #[arg(long, requires = "readme")]
    check: bool,
    #[command(flatten)]
    metric: MetricFlag,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint report out/bench-cifar10-c --html page.html
  paint report out/bench-a out/bench-b --svg accuracy.svg
  paint report out/bench-cifar10-c --latex errors.tex --metric error
  paint report results --readme README.md --check";

/// What is printed.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    results: &'a Results,
    /// Why some rows do not belong beside others.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut folders = Vec::new();
    for folder in &args.results {
        let found = found(folder)?;
        ensure!(!found.is_empty(), "no summary.json of `paint bench` in {}", folder.display());
        folders.extend(found);
    }
    let names = names(&folders)?;
    let read = |(path, name): (&PathBuf, &String)| Ok((name.clone(), Results::read(path)?));
    let all = folders.iter().zip(&names).map(read).collect::<paint_run::Result<Vec<_>>>()?;
    if let Some(readme) = &args.readme {
        return rewrite(readme, &all, args.check);
    }
    let warnings = mixture_warnings(&all.iter().map(|(_, results)| results).collect::<Vec<_>>())?;
    for warning in &warnings {
        warning!("{warning}");
    }
    let results = combine(&all).context("no summary.json in the given folders")?;
    let references = if all.len() == 1 { references(&results) } else { Vec::new() };
    let shown = results.shown_as(args.metric.rate());
    let compare = |name: &&str| Comparison::new(&shown, name);
    let comparisons = references.iter().map(compare).collect::<paint_run::Result<Vec<_>>>()?;
    let file = |path: &Option<PathBuf>, text: &dyn Fn() -> String| -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        write_text(path, &text())?;
        note!("written: {}", path.display());
        Ok(())
    };
    if args.html.is_some() {
        let times =
            |(path, name): (&PathBuf, &String)| Ok((name.clone(), CellTiming::lines(path)?));
        let timings =
            folders.iter().zip(&names).map(times).collect::<paint_run::Result<Vec<_>>>()?;
        let page = BenchPage {
            results: &shown,
            comparisons: &comparisons,
            traces: &[],
            shots: &[],
            cams: &[],
            timings: &combine_timings(&timings),
            warnings: &warnings,
        };
        file(&args.html, &|| bench_page(&page))?;
    }
    file(&args.svg, &|| picture(&shown))?;
    file(&args.csv, &|| results_csv(&results))?;
    file(&args.latex, &|| results_latex(&shown))?;
    let told = Told { results: &results, warnings: &warnings };
    args.output.print(&told, |Told { warnings, .. }| {
        let quote = |warning: &String| format!("> **Warning**: {}\n\n", markdown(warning));
        warnings.iter().map(quote).collect::<String>() + &results_markdown(&shown, &comparisons)
    })
}

/// What folders are called: their last part, or the whole path where two end alike.
fn names(folders: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let last = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut names = Vec::new();
    for (i, folder) in folders.iter().enumerate() {
        ensure!(!folders[..i].contains(folder), "{} is given twice", folder.display());
        let is_alone = folders.iter().filter(|other| last(other) == last(folder)).count() == 1;
        names.push(if is_alone { last(folder) } else { folder.display().to_string() });
    }
    Ok(names)
}

/// The folder itself, if it holds results, or those of its folders that do, by name.
fn found(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let holds = |path: &Path| path.join("summary.json").exists();
    if holds(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| holds(path));
    paths.sort();
    Ok(paths)
}

fn rewrite(readme: &Path, all: &[(String, Results)], check: bool) -> anyhow::Result<()> {
    let old = paint_files::read_text(readme)
        .with_context(|| format!("cannot read {}", readme.display()))?;
    let new = with_readme_section(&old, &readme_section(all))?;
    match (old == new, check) {
        (true, _) => Ok(()),
        (false, true) => bail!("stale: {}; run the command that stands in it", readme.display()),
        (false, false) => Ok(write_text(readme, &new)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_called_by_their_last_part_or_by_their_path_where_two_end_alike() {
        let names = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["out/a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["x/a", "b", "y/a"]).unwrap(), ["x/a", "b", "y/a"]);
        let error = names(&["x/a", "b", "x/a/"]).unwrap_err().to_string();
        assert_eq!(error, "x/a/ is given twice");
    }
}
