//! Our rows beside the paper's, and what differs.

use super::page::{Page, warning};
use super::table::Table;
use crate::report::compare::{Comparison, Matched};

pub(super) fn section(comparison: &Comparison, page: &mut Page) {
    let reference = &comparison.reference;
    let heads = ["row", "paper's backbone"].iter().chain(comparison.heads());
    let mut table = Table::new(heads);
    for row in &comparison.rows {
        let names = [row.label.clone(), row.backbone.clone().unwrap_or_default()];
        table.row(names.into_iter().chain(comparison.cells(row)));
    }
    let mut html = table.finish();
    if comparison.matched().next().is_some() {
        let mut table = Table::new(["row"].into_iter().chain(Matched::HEADS));
        for (label, matched) in comparison.matched() {
            table.row([label.to_owned()].into_iter().chain(matched.cells()));
        }
        html.push_str("<h3>Prompts found again</h3>");
        html.push_str(&table.finish());
    }
    if !comparison.differences.is_empty() {
        let differences = comparison.differences.iter().map(ToString::to_string);
        let head = "These numbers are not of one protocol.";
        html.push_str(&warning(head, "Ours differs from the paper's:", differences));
    }
    let (id, title) =
        (format!("paper-{}", reference.name), format!("Beside the paper: {}", reference.name));
    page.section(&id, &title, reference.what, &html);
}
