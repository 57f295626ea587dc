//! What each row costs, and how well it knows what it knows.

use super::chart::{Dot, colour, on_page, scatter};
use super::page::Page;
use super::table::Table;
use crate::grid::{CellTiming, Results, Row, Spread};
use crate::report::number::{FIGURES, decimal};

pub(super) fn section(results: &Results, timings: &[CellTiming], page: &mut Page) {
    let mut html = against_time(results, timings).unwrap_or_default();
    html.push_str(&table(results, timings));
    let text = "Calibration, the prompts that were found again, forward and backward passes per image, and trainable parameters.";
    page.section("cost", "Cost and calibration", text, &html);
}

/// The mean over the timed runs of a row.
fn mean(timings: &[CellTiming], row: &Row, value: fn(&CellTiming) -> Option<f64>) -> Option<f64> {
    let own = timings.iter().filter(|timing| timing.label == row.label);
    Spread::of(&own.filter_map(value).collect::<Vec<_>>()).map(|spread| spread.mean)
}

/// Milliseconds per image.
pub(super) fn ms(timings: &[CellTiming], row: &Row) -> Option<f64> {
    mean(timings, row, |timing| Some(timing.ms_per_image))
}

fn against_time(results: &Results, timings: &[CellTiming]) -> Option<String> {
    let dot = |(i, row): (usize, &Row)| {
        let at = (ms(timings, row)?, row.accuracy.mean);
        Some(Dot { label: row.label.clone(), colour: colour(i), at })
    };
    let dots: Vec<Dot> = results.rows.iter().enumerate().filter_map(dot).collect();
    let name = results.rate.name();
    let (title, y) = (format!("{name} against time"), format!("{name}, %"));
    (!dots.is_empty()).then(|| on_page(&scatter(&title, ["ms per image", &y], &dots)))
}

fn table(results: &Results, timings: &[CellTiming]) -> String {
    let times = if timings.is_empty() { &[][..] } else { &["ms / image", "peak MiB"] };
    let figures = FIGURES.iter().map(|figure| figure.head);
    let mut table = Table::new(["row"].into_iter().chain(figures).chain(times.iter().copied()));
    for row in &results.rows {
        let mut cells = vec![row.label.clone()];
        cells.extend(FIGURES.iter().map(|figure| (figure.cell)(row)));
        if !times.is_empty() {
            cells.push(decimal(ms(timings, row), 3));
            cells.push(decimal(mean(timings, row, |timing| timing.peak_memory_mib), 0));
        }
        table.row(cells);
    }
    table.finish()
}
