//! Settings on trial, and which of them win.

use paint_run::Config;
use toml::Table;

use super::schedule::Rung;
use crate::grid::{CellResult, Grid, Outcome, Spread};

/// Settings on trial.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) label: String,
    /// On top of those that the method has anyway.
    pub(super) settings: Table,
}

/// A candidate with what it reached, seed by seed.
pub(super) struct Measured {
    pub(super) candidate: Candidate,
    /// The mean over the stream.
    pub(super) accuracy: Vec<f64>,
    /// What it is ranked by: that mean, or the mean of the last round where that is lower. A short stream flatters
    /// settings that are about to ruin a model; the last round is where it begins to show.
    pub(super) standing: Vec<f64>,
    /// Each corruption in the first and in the last round, over all seeds.
    pub(super) ends: Vec<[f64; 2]>,
    pub(super) config: Config,
}

impl Measured {
    /// What a candidate reached on a stage over so many corruptions; nothing if one of its runs failed.
    pub(super) fn new(
        candidate: &Candidate,
        (rung, domains): (&Rung, usize),
        grid: &Grid,
        outcome: &Outcome,
    ) -> Option<Self> {
        let cell = grid.cells.iter().find(|cell| cell.label == candidate.label)?;
        let results = || outcome.results.iter().filter(|one| one.label == candidate.label);
        let accuracy: Vec<f64> = results().map(|one| one.mean_accuracy).collect();
        let is_whole = |one: &CellResult| {
            let accuracies = one.visits.iter().filter_map(|visit| visit.figures.accuracy);
            accuracies.count() == domains * rung.rounds
        };
        if accuracy.len() != rung.seeds.len() || !results().all(is_whole) {
            return None;
        }
        let visit = |one: &CellResult, at: usize| one.visits[at].figures.accuracy.unwrap_or(0.0);
        let last = |one: &CellResult| one.visits.len() - domains;
        let last_round = |one: &CellResult| {
            (0..domains).map(|at| visit(one, last(one) + at)).sum::<f64>() / domains as f64
        };
        let over_seeds = |value: &dyn Fn(&CellResult) -> f64| {
            results().map(value).sum::<f64>() / rung.seeds.len() as f64
        };
        let ends = |at: usize| {
            [over_seeds(&|one| visit(one, at)), over_seeds(&|one| visit(one, last(one) + at))]
        };
        Some(Self {
            candidate: candidate.clone(),
            standing: results().map(|one| one.mean_accuracy.min(last_round(one))).collect(),
            accuracy,
            ends: (0..domains).map(ends).collect(),
            config: cell.config.clone(),
        })
    }

    /// Every setting.
    pub(super) fn settings(&self) -> &Table {
        &self.config.method.settings
    }

    pub(super) fn rank(&self) -> f64 {
        Spread::of(&self.standing).map_or(f64::NEG_INFINITY, |spread| spread.mean)
    }

    /// Whether it is better than the usual settings by half a point and by more than the standard error over the
    /// seeds, and loses no corruption on the way: none is in the last round clearly worse than it was at first and than
    /// with the usual settings.
    fn is_safe_beside(&self, usual: &Self) -> bool {
        let pairs = self.standing.iter().zip(&usual.standing);
        let gains: Vec<f64> = pairs.map(|(ours, usual)| ours - usual).collect();
        let is_clear = |gain: Spread| gain.mean >= WORTH && gain.mean > gain.standard_error();
        let is_better = Spread::of(&gains).is_some_and(is_clear);
        let holds = |([first, last], [_, usual]): (&[f64; 2], &[f64; 2])| {
            last + HARM >= *first || last + HARM >= *usual
        };
        is_better && self.ends.iter().zip(&usual.ends).all(holds)
    }
}

/// A gain of fewer points is no reason to leave the usual settings.
const WORTH: f64 = 0.5;

/// Points that chance can explain between two visits of a corruption. More is the beginning of a collapse.
const HARM: f64 = 2.0;

/// What the candidate without settings of its own is called.
pub(super) const USUAL: &str = "as it is";

/// Puts the best first; of equals the earlier one.
pub(super) fn rank(measured: &mut [Measured]) {
    measured.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
}

/// The candidates of the next stage: the best, and always the settings that the method has anyway, if they ran at all.
pub(super) fn kept(ranked: &[Measured], count: usize) -> Vec<Candidate> {
    let mut best: Vec<&Measured> = ranked.iter().take(count).collect();
    let usual = ranked.iter().find(|one| one.candidate.label == USUAL);
    if let Some(usual) = usual
        && !best.iter().any(|one| one.candidate.label == USUAL)
    {
        best.pop();
        best.push(usual);
    }
    best.into_iter().map(|one| one.candidate.clone()).collect()
}

/// Puts the choice first: the best candidate that is safe beside the usual settings, or else those.
pub(super) fn settle(ranked: &mut [Measured]) {
    let Some(usual) = ranked.iter().position(|one| one.candidate.label == USUAL) else { return };
    let safe = ranked[..usual].iter().position(|one| one.is_safe_beside(&ranked[usual]));
    ranked[..=safe.unwrap_or(usual)].rotate_right(1);
}

pub(super) fn labelled(settings: Table) -> Candidate {
    let label = settings.iter().map(|(key, value)| format!("{key}={value}"));
    Candidate { label: label.collect::<Vec<_>>().join(", "), settings }
}
