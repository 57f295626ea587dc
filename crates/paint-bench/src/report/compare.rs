//! Our rows beside the paper's: accuracies with their difference, prompts found again, and what differs between the
//! protocols.

use paint_data::corruption::Group;
use paint_run::Result;
use paint_run::metric::Glance;

use super::number::{decimal, signed};
use crate::grid::{Results, Row, Spread};
use crate::protocol::{Difference, Protocol};
use crate::reference::{Measure, Reference, ReferenceRow, reference};
use crate::reproduce::Target;

/// The paper's tables and figures that results are compared with.
pub fn references(results: &Results) -> Vec<&str> {
    match results.target.as_deref().map(Target::find) {
        Some(Ok(target)) => target.references.to_vec(),
        _ => results.protocol.reference.as_deref().into_iter().collect(),
    }
}

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

/// One row of the paper's and ours: means in percent, written as the results are.
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
    /// Ours with a prompt that was learnt from clean images, where the numbers are accuracies on those.
    pub learnt: Option<f64>,
    /// The paper's by group of corruptions, where it has them.
    pub by_group: Vec<(Group, f64)>,
    /// How prompts were found again, where the paper reports it.
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

impl ComparedRow {
    /// The paper's mean over a group of corruptions.
    pub(super) fn paper_by_group(&self, group: Group) -> Option<f64> {
        self.by_group.iter().find(|(of, _)| *of == group).map(|(_, value)| *value)
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
    /// `results` beside the table or figure `name`: means of the stream, or for the figures of forgetting the means
    /// of the curves.
    pub fn new(results: &Results, name: &str) -> Result<Self> {
        let reference = reference(name)?;
        let shipped = Protocol::find(reference.protocol)?;
        let curve = |row: &Row, value: fn(&Glance) -> Option<f64>| {
            let values: Vec<f64> = row.glances.iter().filter_map(value).collect();
            Spread::of(&values).map(|spread| spread.mean)
        };
        let accuracy = |row: &Row| match reference.measure {
            Measure::Stream => Some(row.accuracy.mean),
            Measure::Clean => curve(row, |glance| glance.clean),
            Measure::Previous => curve(row, |glance| glance.previous),
        };
        let learnt = |row: &Row| match reference.measure {
            Measure::Clean => curve(row, |glance| glance.learnt),
            Measure::Stream | Measure::Previous => None,
        };
        let family = results.protocol.family();
        let same_family =
            |row: &ReferenceRow| family.zip(row.family).is_none_or(|(ours, paper)| ours == paper);
        let row = |row: &ReferenceRow| {
            let ours = results.row(&row.label).filter(|_| same_family(row));
            Some(ComparedRow {
                label: row.label.clone(),
                backbone: row.backbone.clone(),
                paper: results
                    .rate
                    .of(row.accuracy.or_else(|| Some(Spread::of(&row.cells)?.mean))?),
                ours: ours.and_then(accuracy),
                learnt: ours.and_then(learnt),
                by_group: row.by_group.iter().map(|(of, v)| (*of, results.rate.of(*v))).collect(),
                matched: row.matching.map(|paper| Matched::new(paper, ours)),
            })
        };
        let rows = reference.rows.iter().filter_map(row).collect();
        let differences = results.protocol.differences_from_paper(&shipped)?;
        Ok(Self { reference, rows, differences })
    }

    /// The heads of [`Self::cells`].
    pub(super) fn heads(&self) -> &'static [&'static str] {
        const HEADS: [&str; 4] = ["ours", "paper", "difference", "ours, learnt prompt"];
        let has_learnt = self.rows.iter().any(|row| row.learnt.is_some());
        &HEADS[..if has_learnt { 4 } else { 3 }]
    }

    /// One cell for each head.
    pub(super) fn cells(&self, row: &ComparedRow) -> impl Iterator<Item = String> {
        let difference = row.ours.map(|ours| ours - row.paper);
        let figures = [decimal(row.ours, 2), decimal(Some(row.paper), 2), signed(difference, 2)];
        figures.into_iter().chain([decimal(row.learnt, 2)]).take(self.heads().len())
    }

    /// The rows for which the paper reports how prompts were found again.
    pub(super) fn matched(&self) -> impl Iterator<Item = (&str, &Matched)> {
        self.rows.iter().filter_map(|row| Some((row.label.as_str(), row.matched.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::results;
    use super::*;

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
}
