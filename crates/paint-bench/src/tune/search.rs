//! The search: rounds of ever fewer candidates with ever more images.

use paint_data::corruption::{CORRUPTIONS, HELD_OUT_PAIRS};
use paint_run::{Error, Result};
use toml::Table;

use super::candidate::{Candidate, Measured, USUAL, kept, labelled, settle};
use super::schedule::{Budget, Rung};
use super::space::Space;
use super::tuned::{Finalist, Neighbour, Tuned, Work};
use crate::grid::{Grid, Outcome, Variant};
use crate::protocol::{Place, Protocol};

/// What is searched, on what, and for how much.
#[derive(Debug, Clone)]
pub struct Request {
    /// Images, network and order; seeds and the number of images are the rounds' own.
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
        let Budget { candidates, images, seeds } = &self.budget;
        for (what, count, fewest) in
            [("candidates", *candidates, 2), ("images", *images, 1), ("seeds", seeds.len(), 1)]
        {
            if count < fewest {
                return Err(Error::config(format!(
                    "{what}: expected {fewest} or more, got {count}"
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

    /// Visits of a corruption in each run.
    pub fn visits(&self) -> usize {
        self.domains().len() * self.protocol.scenario.rounds.unwrap_or(1)
    }

    /// The rounds.
    pub fn rungs(&self) -> Vec<Rung> {
        self.budget.rungs(self.protocol.scenario.batch_size)
    }

    /// The first round as a grid, which refuses what a method or the data cannot do before anything runs.
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
        for (round, rung) in rungs.iter().enumerate() {
            let what = format!(
                "round {} of {}: {} candidates, {} images of each corruption",
                round + 1,
                rungs.len(),
                candidates.len(),
                rung.images
            );
            let Some((mut ranked, lost)) = self.round(&what, rung, &candidates, measure)? else {
                return Ok(None);
            };
            work.add(candidates.len() * rung.seeds.len(), rung.images * self.visits());
            failed += lost;
            if let Some(next) = rungs.get(round + 1) {
                candidates = kept(&ranked, next.candidates);
                earlier = Some((rung.clone(), ranked));
                continue;
            }
            work.whole_grid_images = self.budget.whole_grid() * self.visits();
            settle(&mut ranked);
            let (rung, before) =
                earlier.as_ref().map_or((rung, &ranked), |(rung, all)| (rung, all));
            let best = &ranked[0];
            let reference = before.iter().find(|one| one.candidate.label == best.candidate.label);
            let reference = reference.map_or(best.mean(), |one| one.accuracy[0]);
            let Some(neighbours) = self.neighbours(rung, best, reference, &mut work, measure)?
            else {
                return Ok(None);
            };
            return Ok(Some(self.tuned(&ranked, neighbours, failed, work)));
        }
        Err(Error::config("a search has one round or more"))
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
        protocol.seeds.clone_from(&rung.seeds);
        let row = |one: &Candidate| Variant::with(&one.label, &self.method, one.settings.clone());
        let rows = candidates.iter().map(row).collect();
        Grid::new(protocol.resolve(&self.place)?, rows, &self.place)
    }

    /// The candidates by accuracy, the best first, and how many failed; nothing if the round was stopped.
    fn round(
        &self,
        what: &str,
        rung: &Rung,
        candidates: &[Candidate],
        measure: &mut Measure<'_>,
    ) -> Result<Option<(Vec<Measured>, usize)>> {
        let grid = self.grid(rung, candidates)?;
        let outcome = measure(what, &grid);
        if outcome.unfinished > 0 {
            return Ok(None);
        }
        let measured = |candidate: &Candidate| {
            let results = || outcome.results.iter().filter(|one| one.label == candidate.label);
            let accuracy: Vec<f64> = results().map(|one| one.mean_accuracy).collect();
            let count = results().map(|one| one.visits.len()).min().unwrap_or(0);
            let visit = |at: usize| {
                results()
                    .map(|one| one.visits[at].figures.accuracy.unwrap_or_default())
                    .sum::<f64>()
                    / accuracy.len() as f64
            };
            let visits = (0..count).map(visit).collect();
            let cell = grid.cells.iter().find(|cell| cell.label == candidate.label)?;
            let (candidate, config) = (candidate.clone(), cell.config.clone());
            let is_whole = accuracy.len() == rung.seeds.len();
            is_whole.then_some(Measured { candidate, accuracy, visits, config })
        };
        let mut ranked: Vec<Measured> = candidates.iter().filter_map(measured).collect();
        let failed = candidates.len() - ranked.len();
        if ranked.is_empty() {
            let first = outcome.failures.first().map(|failure| failure.error.as_str());
            let first = first.unwrap_or("no run has a result");
            return Err(Error::config(format!("every candidate failed, the first: {first}")));
        }
        // Stable: of equals the earlier one is first.
        ranked.sort_by(|a, b| b.mean().total_cmp(&a.mean()));
        Ok(Some((ranked, failed)))
    }

    /// What becomes of the accuracy beside the best candidate, whose own is `reference`.
    fn neighbours(
        &self,
        rung: &Rung,
        best: &Measured,
        reference: f64,
        work: &mut Work,
        measure: &mut Measure<'_>,
    ) -> Result<Option<Vec<Neighbour>>> {
        let beside = self.space.neighbours(&self.space.part(best.settings()));
        if beside.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let rung = Rung { seeds: rung.seeds[..1].to_vec(), ..rung.clone() };
        let candidates: Vec<Candidate> =
            beside.iter().map(|(_, settings)| labelled(settings.clone())).collect();
        let outcome = measure("beside the best one", &self.grid(&rung, &candidates)?);
        if outcome.unfinished > 0 {
            return Ok(None);
        }
        work.add(candidates.len(), rung.images * self.visits());
        let neighbour = |((key, settings), candidate): (&(&str, Table), &Candidate)| {
            let result = outcome.results.iter().find(|one| one.label == candidate.label);
            Neighbour {
                key: (*key).to_owned(),
                value: settings[*key].clone(),
                change: result.map(|result| result.mean_accuracy - reference),
            }
        };
        Ok(Some(beside.iter().zip(&candidates).map(neighbour).collect()))
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
