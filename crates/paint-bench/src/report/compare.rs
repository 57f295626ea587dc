//! Our rows beside the paper's: accuracies with their difference, prompts found again, and what differs between the protocols.

use std::fmt::Write as _;

use super::results::decimal;
use crate::Result;
use crate::grid::{Results, Row, Spread};
use crate::protocol::{Difference, Protocol};
use crate::reference::{Reference, ReferenceRow, reference};
use paint_run::probe::Glance;

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
    /// Ours; none where the paper's backbone is of another family.
    pub ours: Option<f64>,
    /// How prompts were found again, where the paper tells it.
    pub matched: Option<Matched>,
}

/// How prompts were found again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matched {
    /// The paper's prompts and matching accuracy in percent.
    pub paper: (f64, f64),
    /// Our prompts.
    pub prompts: Option<f64>,
    /// Batches that used the prompt first made for their domain, in percent.
    pub per_batch: Option<f64>,
    /// Domains whose most used prompt is that one, in percent.
    pub per_domain: Option<f64>,
}

/// Whether a backbone is a vision transformer, by the paper's name or by ours.
fn is_transformer(backbone: &str) -> bool {
    let name = backbone.to_lowercase();
    name.starts_with("vit") || name.starts_with("deit")
}

impl ComparedRow {
    /// Ours, the paper's and the difference.
    pub(super) fn cells(&self) -> [String; 3] {
        let difference = self.ours.map(|ours| format!("{:+.2}", ours - self.paper));
        let difference = difference.unwrap_or_else(|| "-".into());
        [decimal(self.ours, 2), decimal(Some(self.paper), 2), difference]
    }
}

impl Matched {
    /// The heads of [`Self::cells`].
    pub(super) const HEADS: [&str; 5] = [
        "prompts, ours",
        "prompts, paper",
        "matching of batches, ours",
        "matching of domains, ours",
        "matching, paper",
    ];

    /// One cell for each head.
    pub(super) fn cells(&self) -> [String; 5] {
        let (prompts, accuracy) = self.paper;
        [
            decimal(self.prompts, 1),
            decimal(Some(prompts), 1),
            decimal(self.per_batch, 1),
            decimal(self.per_domain, 1),
            decimal(Some(accuracy), 1),
        ]
    }

    fn new(paper: (f64, f64), ours: Option<&Row>) -> Self {
        Self {
            paper,
            prompts: ours.and_then(|row| row.prompts),
            per_batch: ours.and_then(|row| row.matching_per_batch),
            per_domain: ours.and_then(|row| row.matching_per_domain),
        }
    }
}

impl Comparison {
    /// `results` beside the table or figure `name`: means of the stream, or for the figures of forgetting the means of the
    /// curves.
    pub fn new(results: &Results, name: &str) -> Result<Self> {
        let reference = reference(name)?;
        let shipped = Protocol::find(reference.protocol)?;
        let accuracy = |row: &Row| {
            let curve = |value: fn(&Glance) -> Option<f64>| {
                let values: Vec<f64> = row.glances.iter().filter_map(value).collect();
                Spread::of(&values).map(|spread| spread.mean)
            };
            match name {
                "antiforget-previous" => curve(|glance| glance.previous),
                _ if name.starts_with("antiforget") => curve(|glance| glance.clean),
                _ => Some(row.accuracy.mean),
            }
        };
        let backbone = results.protocol.model.backbone.as_deref();
        let same_family = |row: &ReferenceRow| match (backbone, row.backbone.as_deref()) {
            (Some(ours), Some(theirs)) => is_transformer(ours) == is_transformer(theirs),
            _ => true,
        };
        let row = |row: &ReferenceRow| {
            let ours = results.row(&row.label).filter(|_| same_family(row));
            Some(ComparedRow {
                label: row.label.clone(),
                backbone: row.backbone.clone(),
                paper: row.accuracy.or_else(|| Some(Spread::of(&row.cells)?.mean))?,
                ours: ours.and_then(accuracy),
                matched: row.matching.map(|paper| Matched::new(paper, ours)),
            })
        };
        let rows = reference.rows.iter().filter_map(row).collect();
        let differences = results.protocol.differences_from_paper(&shipped)?;
        Ok(Self { reference, rows, differences })
    }

    /// The rows of which the paper tells how prompts were found again.
    pub(super) fn matched(&self) -> impl Iterator<Item = (&str, &Matched)> {
        self.rows.iter().filter_map(|row| Some((row.label.as_str(), row.matched.as_ref()?)))
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "\n## Beside the paper: {}\n\n| row | paper's backbone | ours | paper | difference |\n|---|---|---:|---:|---:|\n",
            self.reference.what
        );
        for row in &self.rows {
            let backbone = row.backbone.as_deref().unwrap_or("");
            let _ = writeln!(text, "| {} | {backbone} | {} |", row.label, row.cells().join(" | "));
        }
        if self.matched().next().is_some() {
            let heads = Matched::HEADS.join(" | ");
            let _ = write!(text, "\n| row | {heads} |\n|---|{}\n", "---:|".repeat(5));
            for (label, matched) in self.matched() {
                let _ = writeln!(text, "| {label} | {} |", matched.cells().join(" | "));
            }
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

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn the_paper_stands_beside_with_the_difference_and_what_differs() {
        let text = Comparison::new(&results(), "table1").unwrap().markdown();
        assert!(text.contains("| paint | ViT-B/16 | 64.00 | 92.00 | -28.00 |"), "{text}");
        assert!(text.contains("not of one protocol"), "{text}");
        assert!(text.contains("data.name: \"embedded\" in place of \"cifar10-c\""), "{text}");
    }

    #[test]
    fn a_residual_network_of_the_paper_is_not_compared_with_a_transformer() {
        let mut results = results();
        let ours = |results: &Results, family: &str| {
            let rows = Comparison::new(results, "table1").unwrap().rows.into_iter();
            let of = |row: &ComparedRow| row.backbone.as_ref().unwrap().starts_with(family);
            rows.filter(of).find(|row| row.label == "source").unwrap().ours
        };
        results.protocol.model.backbone = Some("vit_tiny_patch4_32".into());
        assert_eq!((ours(&results, "ViT"), ours(&results, "Wide")), (Some(55.0), None));
        results.protocol.model.backbone = Some("cifar_resnet56".into());
        assert_eq!((ours(&results, "ViT"), ours(&results, "Wide")), (None, Some(55.0)));
    }

    #[test]
    fn prompts_found_again_stand_beside_the_papers() {
        let mut results = results();
        let row = &mut results.rows[1];
        row.label = "PAINT-Query".into();
        row.prompts = Some(4.0);
        row.matching_per_batch = Some(26.7);
        let text = Comparison::new(&results, "matching").unwrap().markdown();
        assert!(text.contains("| PAINT-Query | 4.0 | 11.0 | 26.7 | - | 53.3 |"), "{text}");
        assert!(text.contains("| PAINT-Oracle | - | 15.0 | - | - | 100.0 |"), "{text}");
    }
}
