//! What a search found, and how sure that is.

use std::fmt::Write as _;

use serde::Serialize;
use toml::{Table, Value};

use super::preset::Preset;
use super::schedule::Rung;
use crate::grid::Spread;

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// The method's name.
    pub method: String,
    /// SHA-256 of the weights.
    pub weights_sha256: Option<String>,
    /// The images.
    pub dataset: String,
    /// What was done to them.
    pub corruptions: Vec<String>,
    /// How badly.
    pub severity: Option<u8>,
    /// Images of each visit of a corruption in the last stage.
    pub images: usize,
    /// Batches of one run of the last stage: how long a stream was seen.
    pub batches: usize,
    /// Seeds of the last stage.
    pub seeds: Vec<u64>,
    /// The settings that were searched, with the values that were best.
    pub chosen: Table,
    /// Every setting.
    pub settings: Table,
    /// The candidates of the last stage, the choice first.
    pub finalists: Vec<Finalist>,
    /// What becomes of the accuracy if one setting is moved by a tenth of its range.
    pub neighbours: Vec<Neighbour>,
    /// The stage in which that was seen.
    pub neighbours_stage: Rung,
    /// Settings whose value lies at an end of what was searched.
    pub at_edge: Vec<String>,
    /// Candidates that ended in an error, as those that diverge do.
    pub failed: usize,
    /// What it cost.
    pub work: Work,
}

/// A candidate of the last stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finalist {
    /// Whether these are the settings that the method has anyway.
    pub is_usual: bool,
    /// Its values of the settings that were searched.
    pub chosen: Table,
    /// The mean over the corruptions in percent, seed by seed.
    pub accuracy: Vec<f64>,
    /// What it is ranked by: that mean, or the mean of the last round where that is lower.
    pub standing: Vec<f64>,
}

/// Settings beside the best ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbour {
    /// The setting that was moved.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// What the accuracy changes by, in points, that of the last round where it is lower; none if the run failed.
    pub change: Option<f64>,
}

/// What a search cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Runs.
    pub runs: usize,
    /// Images over all runs.
    pub images: usize,
    /// Images of a grid of all candidates with all images and seeds.
    pub whole_grid_images: usize,
}

impl Work {
    pub(super) fn add(&mut self, runs: usize, images_per_run: usize) {
        self.runs += runs;
        self.images += runs * images_per_run;
    }
}

/// By how much one finalist is better than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// The mean difference in points.
    pub points: f64,
    /// Seeds in which it is better.
    pub wins: usize,
    /// Seeds.
    pub seeds: usize,
}

impl Margin {
    fn of(better: &Finalist, other: &Finalist) -> Self {
        let differences = better.standing.iter().zip(&other.standing).map(|(a, b)| a - b);
        let differences: Vec<f64> = differences.collect();
        let seeds = differences.len();
        let wins = differences.iter().filter(|difference| **difference > 0.0).count();
        Self { points: differences.iter().sum::<f64>() / seeds.max(1) as f64, wins, seeds }
    }
}

impl Tuned {
    /// What was gained over the settings that the method has anyway; nothing where these are the best, or failed.
    pub fn gain(&self) -> Option<Margin> {
        let usual = self.finalists[1..].iter().find(|one| one.is_usual)?;
        Some(Margin::of(&self.finalists[0], usual))
    }

    /// The lead over the next best candidate.
    pub fn lead(&self) -> Option<Margin> {
        Some(Margin::of(&self.finalists[0], self.finalists.get(1)?))
    }

    /// The most that is lost beside the best candidate, in points: small where the choice matters little.
    pub fn steepness(&self) -> Option<f64> {
        let losses = self.neighbours.iter().filter_map(|one| one.change).map(|change| -change);
        losses.reduce(f64::max).map(|loss| if loss > 0.0 { loss } else { 0.0 })
    }

    /// The settings as a file.
    pub fn preset(&self) -> Preset {
        let list = |values: &[f64]| Value::Array(values.iter().map(|&v| Value::Float(v)).collect());
        let texts = self.corruptions.iter().map(|name| Value::from(name.as_str())).collect();
        let seeds = self.seeds.iter().map(|&seed| Value::Integer(seed as i64)).collect();
        let mut evidence = Table::new();
        evidence.insert("dataset".into(), Value::from(self.dataset.as_str()));
        evidence.insert("corruptions".into(), Value::Array(texts));
        evidence.insert("images".into(), Value::Integer(self.images as i64));
        evidence.insert("batches".into(), Value::Integer(self.batches as i64));
        evidence.insert("seeds".into(), Value::Array(seeds));
        evidence.insert("accuracy".into(), list(&self.finalists[0].accuracy));
        if let Some(usual) = self.finalists.iter().find(|one| one.is_usual) {
            evidence.insert("accuracy_before".into(), list(&usual.accuracy));
        }
        evidence.insert("chosen".into(), Value::Table(self.chosen.clone()));
        Preset {
            method: self.method.clone(),
            weights_sha256: self.weights_sha256.clone(),
            settings: self.settings.clone(),
            evidence,
        }
    }

    /// What was found, for people.
    pub fn text(&self) -> String {
        let best = &self.finalists[0];
        let mut out = format!("{}: {}\n", self.method, shown(&best.chosen));
        let usual = self.finalists.iter().find(|one| one.is_usual);
        if best.is_usual {
            out.push_str(
                "  the settings it has anyway: no candidate was clearly better without losing a corruption\n",
            );
        } else if let Some(usual) = usual {
            let _ = writeln!(out, "  in place of {}", shown(&usual.chosen));
        }
        let _ = writeln!(
            out,
            "accuracy   {} on {} images of {}",
            figures(best),
            self.images,
            self.corruptions.join(", ")
        );
        if !best.is_usual {
            let _ = writeln!(
                out,
                "stream     {} batches: what a longer one does with these settings is unknown",
                self.batches
            );
        }
        if let (Some(gain), Some(usual)) = (self.gain(), usual) {
            let _ = writeln!(out, "before     {}: {}", figures(usual), told(gain));
        }
        if let (Some(lead), Some(next)) = (self.lead(), self.finalists.get(1))
            && !next.is_usual
        {
            let _ = writeln!(
                out,
                "next best  {} with {}: {}",
                figures(next),
                shown(&next.chosen),
                told(lead)
            );
        }
        for one in &self.neighbours {
            let change =
                one.change.map_or("failed".into(), |change| format!("{change:+.2} points"));
            let _ = writeln!(out, "beside it  {}={}: {change}", one.key, one.value);
        }
        if let Some(steepness) = self.steepness() {
            let verdict = if steepness < FLAT { "flat" } else { "steep" };
            let Rung { images, rounds, .. } = self.neighbours_stage;
            let _ = writeln!(
                out,
                "           {verdict}: at most {steepness:.2} points are lost there \
                 ({images} images per visit, {rounds} rounds, one seed)"
            );
        }
        for key in &self.at_edge {
            let _ = writeln!(
                out,
                "at the end of what was searched: {key}; look further with --search {key}=LOW..HIGH"
            );
        }
        if self.failed > 0 {
            let _ =
                writeln!(out, "failed     {} candidates, as those that diverge do", self.failed);
        }
        let Work { runs, images, whole_grid_images } = self.work;
        let share = 100.0 * images as f64 / whole_grid_images.max(1) as f64;
        let _ = writeln!(
            out,
            "cost       {runs} runs over {images} images, {share:.0} % of all candidates with all images and seeds"
        );
        out
    }
}

/// Points below which the surroundings of a choice count as flat.
const FLAT: f64 = 1.0;

fn shown(settings: &Table) -> String {
    let parts = settings.iter().map(|(key, value)| format!("{key}={value}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The accuracy, and what the candidate is ranked by where that is something else.
fn figures(one: &Finalist) -> String {
    let accuracy = spread(&one.accuracy);
    match (Spread::of(&one.accuracy), Spread::of(&one.standing)) {
        (Some(all), Some(ranked)) if all.mean - ranked.mean >= 0.005 => {
            format!(
                "{accuracy} (ranked as {:.2} %: a last round counts where it is lower)",
                ranked.mean
            )
        }
        _ => accuracy,
    }
}

fn spread(accuracy: &[f64]) -> String {
    let Some(Spread { mean, std, runs }) = Spread::of(accuracy) else { return "none".into() };
    match std {
        Some(std) => format!("{mean:.2} % ± {std:.2} over {runs} seeds"),
        None => format!("{mean:.2} % with one seed"),
    }
}

fn told(Margin { points, wins, seeds }: Margin) -> String {
    if points < 0.0 {
        return "better, but not clearly, or it loses a corruption on the way".into();
    }
    let sure = match (wins, seeds) {
        (_, 1) => "one seed says little".to_owned(),
        _ if wins == seeds => "in every seed".to_owned(),
        _ => format!("in {wins} of {seeds} seeds"),
    };
    format!("{points:+.2} points for the choice, {sure}")
}
