//! The page of a benchmark.

use paint_run::escape::{html as escape, html_lines};

use super::cam::{CamShot, cam_table};
use super::embed::{Shot, shot_cards};
use super::page::Page;
use super::stream::{self, Trace};
use super::{accuracy, cost, forgetting, leaderboard, paper, returns, significance, sweep};
use crate::grid::{CellTiming, Results};
use crate::report::compare::Comparison;
use crate::report::notice::{notice, title};

/// Everything a page shows.
#[derive(Debug, Clone, Copy)]
pub struct BenchPage<'a> {
    /// The table.
    pub results: &'a Results,
    /// Beside the paper.
    pub comparisons: &'a [Comparison],
    /// One run of each row.
    pub traces: &'a [Trace],
    /// Images of the stream.
    pub shots: &'a [Shot],
    /// Where some of the rows looked, after the whole stream.
    pub cams: &'a [CamShot],
    /// Times; none to leave them out.
    pub timings: &'a [CellTiming],
    /// What has to be said first.
    pub warnings: &'a [String],
}

const MAPS: &str = "Gradient-weighted attention for the predicted class, averaged over blocks, with the state at the end of the stream; beside it, where it is known, the clean image that the corrupted one was made from.";

/// The page.
pub fn bench_page(bench: &BenchPage<'_>) -> String {
    let BenchPage { results, comparisons, traces, shots, cams, timings, warnings } = *bench;
    let mut page = Page::new(&title(results), &results.protocol.what);
    facts(results, &mut page);
    said_first(results, warnings, &mut page);
    leaderboard::section(results, timings, &mut page);
    accuracy::sections(results, comparisons, &mut page);
    sweep::sections(results, comparisons, &mut page);
    stream::sections(results, traces, &mut page);
    forgetting::section(results, comparisons, &mut page);
    returns::sections(results, &mut page);
    cost::section(results, timings, &mut page);
    significance::section(results, &mut page);
    comparisons.iter().for_each(|comparison| paper::section(comparison, &mut page));
    if !cams.is_empty()
        && let Ok(maps) = cam_table(cams)
    {
        page.section("maps", "Activation maps", MAPS, &maps);
    }
    if !shots.is_empty() {
        let text = "The first image of each domain, as the model saw it.";
        page.section("images", "Images", text, &shot_cards(shots, &[]));
    }
    protocol(results, &mut page);
    page.finish()
}

fn facts(results: &Results, page: &mut Page) {
    page.fact(&format!("protocol {}", results.hash));
    page.fact(&format!("weights {}", results.protocol.model.tag));
    page.fact(results.precision_name());
    let runs = match results.rows.iter().map(|row| row.accuracy.runs).max().unwrap_or(0) {
        1 => "one run each".into(),
        runs => format!("{runs} runs each"),
    };
    page.fact(&format!("{} rows, {runs}", results.rows.len()));
    if let Some(images) = results.images {
        page.fact(&format!("{images} images per visit"));
    }
    page.fact(&format!("paint {}", results.version));
}

fn said_first(results: &Results, warnings: &[String], page: &mut Page) {
    if let Some(notice) = notice(results) {
        page.warn(&notice, "", std::iter::empty());
    }
    for warning in warnings {
        page.warn("", warning, std::iter::empty());
    }
    if let Some(count) = results.failed() {
        let failures = results.failures.iter().map(|f| format!("{}: {}", f.run(), f.error));
        page.warn(&format!("{count}."), "Means are over the others.", failures);
    }
}

fn protocol(results: &Results, page: &mut Page) {
    let document = results.protocol.to_toml().unwrap_or_default();
    let content = format!(
        "<p>Run it again with</p><pre>{}</pre><details open><summary>{} <code>{}</code></summary><pre>{}</pre></details>",
        html_lines(&results.command),
        escape(&results.protocol.name),
        escape(&results.hash),
        html_lines(&document)
    );
    page.section("protocol", "Protocol", "Everything that decided these numbers.", &content);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Row;
    use crate::report::sample::{hostile, renamed, results};

    fn page(results: &Results) -> String {
        let comparisons = [Comparison::new(results, "table1").unwrap()];
        let timings: Vec<CellTiming> = results.rows.iter().map(timing).collect();
        bench_page(&BenchPage {
            results,
            comparisons: &comparisons,
            traces: &[],
            shots: &[],
            cams: &[],
            timings: &timings,
            warnings: &[],
        })
    }

    /// A millisecond per image.
    fn timing(row: &Row) -> CellTiming {
        let (cell, label, device) = ("0".into(), row.label.clone(), "cpu".into());
        CellTiming { cell, label, device, ms_per_image: 1.0, peak_memory_mib: None }
    }

    #[test]
    fn hostile_names_bring_no_element_and_stay_readable() {
        let (plain, hostile) = (page(&renamed("a")), page(&hostile()));
        assert_eq!(hostile.matches('<').count(), plain.matches('<').count());
        assert!(hostile.contains("&lt;img src=x onerror=y&gt;") && !hostile.contains('\u{1b}'));
    }

    #[test]
    fn every_table_and_chart_scrolls_in_a_box_of_its_own() {
        let html = page(&results());
        assert_eq!(
            html.matches("<table").count(),
            html.matches("<div class=\"wide\"><table").count()
        );
        let charts = html.matches("<svg").count();
        assert_eq!(charts, html.matches("<div class=\"chart\"><svg").count());
        assert!(charts > 0, "a page without charts shows nothing");
    }
}
