//! Whether rows differ by more than chance.

use std::fmt::Write as _;

use super::page::Page;
use super::table::Table;
use crate::grid::{MIN_PAIRS, Results};
use crate::report::number::{decimal, signed};

pub(super) fn section(results: &Results, page: &mut Page) {
    let pairs = results.significance.iter().map(|test| test.pairs).max().unwrap_or(0);
    if pairs < 2 {
        return;
    }
    let mut text = format!(
        "The last row against each other one, in points of {}: paired t test over runs of the same seed and order.",
        results.rate.name()
    );
    if results.significance.iter().any(|test| test.p.is_none()) {
        let _ = write!(text, " A test needs at least {MIN_PAIRS} pairs.");
    }
    let mut table = Table::new(["row", "against", "pairs", "difference", "95 %", "p"]);
    for test in &results.significance {
        table.row([
            test.label.clone(),
            test.against.clone(),
            test.pairs.to_string(),
            signed(Some(test.difference), 2),
            test.margin.map_or_else(|| "-".into(), |margin| format!("± {margin:.2}")),
            decimal(test.p, 4),
        ]);
    }
    page.section("significance", "More than chance?", &text, &table.finish());
}
