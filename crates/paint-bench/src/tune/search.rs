//! The search: stages of ever fewer candidates with ever more images.

use paint_data::corruption::{CORRUPTIONS, HELD_OUT_PAIRS};
use paint_run::{Error, Result};
use toml::Table;

use super::candidate::{Candidate, Measured, USUAL, kept, labelled, rank, settle};
use super::schedule::{Budget, Rung};
use super::space::Space;
use super::tuned::{Finalist, Neighbour, Tuned, Work};
use crate::grid::{CellResult, Grid, Outcome, Variant};
use crate::protocol::{Place, Protocol};

/// What is searched, on what, and for how much.
#[derive(Debug, Clone)]
pub struct Request {
    /// Images, network and order; seeds, rounds and the number of images are the stages' own.
    pub protocol: Protocol,
    /// Where.
    pub place: Place,
    /// The method's name.
    pub method: String,
    /// Its settings that are searched.
    pub space: Space,
    /// For how much.
    pub budget: Budget,
}

/// The most candidates, images, seeds or rounds that a search takes.
const MOST: usize = 100_000;

/// What a stage gave.
struct Stage {
    /// The candidates without a failure, the best first.
    ranked: Vec<Measured>,
    /// How many failed, and why the first did.
    failed: usize,
    why: Option<String>,
}

/// What was found beside the best candidate.
struct Beside {
    neighbours: Vec<Neighbour>,
    /// The best of them, if it is better.
    better: Option<Measured>,
}

/// Runs one stage of a search, of which the words say what it is.
pub type Measure<'a> = dyn FnMut(&str, &Grid) -> Outcome + 'a;

/// The corruptions that settings may be chosen on, alone and in pairs: no benchmark has them.
pub fn held_out() -> impl Iterator<Item = &'static str> {
    let alone = CORRUPTIONS.iter().filter(|corruption| corruption.held_out);
    alone.map(|corruption| corruption.name).chain(HELD_OUT_PAIRS)
}

impl Request {
    /// Refuses a search on corruptions that a benchmark has, and one without candidates, images or seeds.
    pub fn check(&self) -> Result<()> {
        let known: Vec<&str> = held_out().collect();
        let domains = self.domains();
        if let Some(other) = domains.iter().find(|name| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            return Err(Error::config(format!(
                "settings are chosen on corruptions that no benchmark has: expected {known}, got {other:?}"
            )));
        }
        if let Some(twice) = (1..domains.len()).find(|&at| domains[..at].contains(&domains[at])) {
            let name = &domains[twice];
            return Err(Error::config(format!(
                "corruptions: expected each once, got {name} twice"
            )));
        }
        let Budget { candidates, images, seeds, rounds } = &self.budget;
        for (what, count, fewest) in [
            ("candidates", *candidates, 2),
            ("images", *images, 1),
            ("seeds", seeds.len(), 1),
            ("scenario.rounds", *rounds, 1),
        ] {
            if !(fewest..=MOST).contains(&count) {
                return Err(Error::config(format!(
                    "{what}: expected {fewest} to {MOST}, got {count}"
                )));
            }
        }
        if domains.is_empty() {
            return Err(Error::config("corruptions: expected one or more, got none"));
        }
        self.protocol.check(&self.place.methods)
    }

    /// The corruptions.
    pub fn domains(&self) -> &[String] {
        self.protocol.scenario.domains.as_deref().unwrap_or_default()
    }

    /// The stages.
    pub fn rungs(&self) -> Vec<Rung> {
        let candidates = self.candidates().len();
        let budget = Budget { candidates, ..self.budget.clone() };
        budget.rungs(self.protocol.scenario.batch_size)
    }

    /// Images over all runs of all candidates with all images, rounds and seeds.
    pub fn whole_grid(&self) -> usize {
        self.budget.last(self.candidates().len()).cost() * self.domains().len()
    }

    /// The first stage as a grid, which refuses what a method or the data cannot do before anything runs.
    pub fn first_grid(&self) -> Result<Grid> {
        let rungs = self.rungs();
        self.grid(&rungs[0], &self.candidates())
    }

    /// Searches. `measure` runs each stage; nothing comes back if one was stopped.
    pub fn tune(&self, measure: &mut Measure<'_>) -> Result<Option<Tuned>> {
        self.check()?;
        let rungs = self.rungs();
        let mut work = Work::default();
        let mut failed = 0;
        let mut candidates = self.candidates();
        let mut earlier: Option<(Rung, Vec<Measured>)> = None;
        for (stage, rung) in rungs.iter().enumerate() {
            let what =
                format!("stage {} of {}: {}", stage + 1, rungs.len(), told(rung, &candidates));
            let Some(Stage { mut ranked, failed: lost, why }) =
                self.stage(&what, rung, &candidates, &mut work, measure)?
            else {
                return Ok(None);
            };
            if ranked.is_empty() {
                let why = why.as_deref().unwrap_or("no run has a result");
                return Err(Error::config(format!("every candidate failed, the first: {why}")));
            }
            failed += lost;
            if let Some(next) = rungs.get(stage + 1) {
                candidates = kept(&ranked, next.candidates);
                earlier = Some((rung.clone(), ranked));
                continue;
            }
            settle(&mut ranked);
            let (before, rivals) =
                earlier.as_ref().map_or((rung, &ranked), |(rung, all)| (rung, all));
            let Some(Beside { mut neighbours, better }) =
                self.beside(before, rivals, &ranked[0], &mut work, measure)?
            else {
                return Ok(None);
            };
            let is_new =
                |better: &Measured| ranked.iter().all(|one| one.settings() != better.settings());
            if let Some(better) = better.filter(is_new) {
                let candidates = [better.candidate.clone()];
                let what = "a better one beside it, with all images and seeds";
                let last = self.budget.last(1);
                let Some(mut found) = self.stage(what, &last, &candidates, &mut work, measure)?
                else {
                    return Ok(None);
                };
                failed += found.failed;
                ranked.append(&mut found.ranked);
                rank(&mut ranked);
                settle(&mut ranked);
                if ranked[0].candidate.label == better.candidate.label {
                    let found = self.beside(before, &[better], &ranked[0], &mut work, measure)?;
                    let Some(found) = found else { return Ok(None) };
                    neighbours = found.neighbours;
                }
            }
            work.whole_grid_images = self.whole_grid();
            return Ok(Some(self.tuned(&ranked, neighbours, failed, work)));
        }
        Err(Error::config("a search has one stage or more"))
    }

    /// The settings that the method has anyway, then the candidates of the space.
    fn candidates(&self) -> Vec<Candidate> {
        let usual = Candidate { label: USUAL.into(), settings: Table::new() };
        let others = self.space.candidates(self.budget.candidates - 1).into_iter();
        std::iter::once(usual).chain(others.map(labelled)).collect()
    }

    fn grid(&self, rung: &Rung, candidates: &[Candidate]) -> Result<Grid> {
        let mut protocol = self.protocol.clone();
        protocol.scenario.limit = Some(rung.images);
        protocol.scenario.rounds = Some(rung.rounds);
        protocol.seeds.clone_from(&rung.seeds);
        let row = |one: &Candidate| Variant::with(&one.label, &self.method, one.settings.clone());
        let rows = candidates.iter().map(row).collect();
        Grid::new(protocol.resolve(&self.place)?, rows, &self.place)
    }

    /// The candidates by what they reached, the best first, and how many failed; nothing if the stage was stopped.
    fn stage(
        &self,
        what: &str,
        rung: &Rung,
        candidates: &[Candidate],
        work: &mut Work,
        measure: &mut Measure<'_>,
    ) -> Result<Option<Stage>> {
        let grid = self.grid(rung, candidates)?;
        let outcome = measure(what, &grid);
        if outcome.unfinished > 0 {
            return Ok(None);
        }
        work.add(candidates.len() * rung.seeds.len(), rung.length() * self.domains().len());
        let measured = |candidate: &Candidate| self.measured(candidate, rung, &grid, &outcome);
        let mut ranked: Vec<Measured> = candidates.iter().filter_map(measured).collect();
        rank(&mut ranked);
        let failed = candidates.len() - ranked.len();
        let why = outcome.failures.first().map(|failure| failure.error.clone());
        Ok(Some(Stage { ranked, failed, why }))
    }

    /// What a candidate reached; nothing if one of its runs failed.
    fn measured(
        &self,
        candidate: &Candidate,
        rung: &Rung,
        grid: &Grid,
        outcome: &Outcome,
    ) -> Option<Measured> {
        let cell = grid.cells.iter().find(|cell| cell.label == candidate.label)?;
        let results = || outcome.results.iter().filter(|one| one.label == candidate.label);
        let accuracy: Vec<f64> = results().map(|one| one.mean_accuracy).collect();
        let domains = self.domains().len();
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
        Some(Measured {
            candidate: candidate.clone(),
            standing: results().map(|one| one.mean_accuracy.min(last_round(one))).collect(),
            accuracy,
            ends: (0..domains).map(ends).collect(),
            config: cell.config.clone(),
        })
    }

    /// What becomes of the best candidate if a setting is moved, on the stream of an earlier stage, and the one that
    /// is better there, if there is one.
    fn beside(
        &self,
        rung: &Rung,
        rivals: &[Measured],
        best: &Measured,
        work: &mut Work,
        measure: &mut Measure<'_>,
    ) -> Result<Option<Beside>> {
        let reference = rivals.iter().find(|one| one.candidate.label == best.candidate.label);
        let reference = reference.map_or(best.standing[0], |one| one.standing[0]);
        let beside = self.space.neighbours(&self.space.part(best.settings()));
        if beside.is_empty() {
            return Ok(Some(Beside { neighbours: Vec::new(), better: None }));
        }
        let rung = Rung { seeds: rung.seeds[..1].to_vec(), ..rung.clone() };
        let candidates: Vec<Candidate> =
            beside.iter().map(|(_, settings)| labelled(settings.clone())).collect();
        let what = "beside the best one";
        let Some(Stage { ranked, .. }) = self.stage(what, &rung, &candidates, work, measure)?
        else {
            return Ok(None);
        };
        let neighbour = |((key, settings), candidate): (&(&str, Table), &Candidate)| {
            let result = ranked.iter().find(|one| one.candidate.label == candidate.label);
            Neighbour {
                key: (*key).to_owned(),
                value: settings[*key].clone(),
                change: result.map(|one| one.standing[0] - reference),
            }
        };
        let neighbours = beside.iter().zip(&candidates).map(neighbour).collect();
        let better = ranked.into_iter().next().filter(|one| one.standing[0] > reference);
        Ok(Some(Beside { neighbours, better }))
    }

    fn tuned(
        &self,
        ranked: &[Measured],
        neighbours: Vec<Neighbour>,
        failed: usize,
        work: Work,
    ) -> Tuned {
        let best = &ranked[0];
        let chosen = self.space.part(best.settings());
        let finalist = |one: &Measured| Finalist {
            is_usual: one.candidate.label == USUAL,
            chosen: self.space.part(one.settings()),
            accuracy: one.accuracy.clone(),
            standing: one.standing.clone(),
        };
        Tuned {
            method: self.method.clone(),
            weights_sha256: best.config.model.sha256.clone(),
            dataset: self.protocol.data.name.clone(),
            corruptions: self.domains().to_vec(),
            severity: self.protocol.scenario.severity,
            images: self.budget.images,
            seeds: self.budget.seeds.clone(),
            at_edge: self.space.at_edge(&chosen).into_iter().map(Into::into).collect(),
            chosen,
            settings: best.settings().clone(),
            finalists: ranked.iter().map(finalist).collect(),
            neighbours,
            failed,
            work,
        }
    }
}

fn told(rung: &Rung, candidates: &[Candidate]) -> String {
    let Rung { images, rounds, .. } = rung;
    format!("{} candidates, {images} images per visit, {rounds} rounds", candidates.len())
}
