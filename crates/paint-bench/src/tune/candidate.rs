//! Settings on trial, and which of them win.

use paint_run::Config;
use toml::Table;

use crate::grid::Spread;

/// Settings on trial.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) label: String,
    /// On top of those that the method has anyway.
    pub(super) settings: Table,
}

/// A candidate with its accuracy for each seed.
pub(super) struct Measured {
    pub(super) candidate: Candidate,
    pub(super) accuracy: Vec<f64>,
    /// Visit by visit, over all seeds.
    pub(super) visits: Vec<f64>,
    pub(super) config: Config,
}

impl Measured {
    /// Every setting.
    pub(super) fn settings(&self) -> &Table {
        &self.config.method.settings
    }

    pub(super) fn mean(&self) -> f64 {
        Spread::of(&self.accuracy).map_or(f64::NEG_INFINITY, |spread| spread.mean)
    }

    /// Whether it is better than the usual settings with every seed, and in no visit clearly worse.
    fn is_safe_beside(&self, usual: &Self) -> bool {
        let pairs = self.accuracy.iter().zip(&usual.accuracy);
        let visits = self.visits.iter().zip(&usual.visits);
        pairs.into_iter().all(|(ours, usual)| ours > usual)
            && visits.into_iter().all(|(ours, usual)| ours + HARM >= *usual)
    }
}

/// Points that a choice may lose in a visit, which chance can explain. More is the beginning of a collapse, or harm
/// where the model was right.
const HARM: f64 = 2.0;

/// What the candidate without settings of its own is called.
pub(super) const USUAL: &str = "as it is";

/// The candidates of the next round: the best, and always the settings that the method has anyway, if they ran at all.
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
