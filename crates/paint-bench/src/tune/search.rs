//! The search: stages of ever fewer candidates with ever more images.

use std::slice;

use paint_run::Error;
use toml::Table;

use super::candidate::{Candidate, Measured, USUAL, kept, labelled, rank, settle};
use super::request::Request;
use super::schedule::Rung;
use super::tuned::{Finalist, Neighbour, Tuned, Work};
use crate::grid::{Grid, Outcome};

/// Runs one stage of a search, of which the words say what it is.
pub type Measure<'a> = dyn FnMut(&str, &Grid) -> Outcome + 'a;

impl Request {
    /// Searches. `measure` runs each stage; nothing comes back if one was stopped.
    pub fn tune(&self, measure: &mut Measure<'_>) -> paint_run::Result<Option<Tuned>> {
        self.check()?;
        let search = Search { request: self, measure, work: Work::default(), failed: 0 };
        match search.run() {
            Ok(tuned) => Ok(Some(tuned)),
            Err(Ended::Stopped) => Ok(None),
            Err(Ended::Failed(error)) => Err(error),
        }
    }
}

/// Why a search ends without a choice.
enum Ended {
    Stopped,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A search under way.
struct Search<'a, 'm> {
    request: &'a Request,
    measure: &'a mut Measure<'m>,
    work: Work,
    /// Candidates that ended in an error.
    failed: usize,
}

/// What was found beside the best candidate.
struct Beside {
    neighbours: Vec<Neighbour>,
    /// The stage that showed them.
    rung: Rung,
    /// The best of them, if it is better.
    better: Option<Measured>,
}

impl Search<'_, '_> {
    fn run(mut self) -> Result<Tuned, Ended> {
        let rungs = self.request.rungs();
        let mut candidates = self.request.candidates();
        let mut earlier = Vec::new();
        for (stage, pair) in rungs.windows(2).enumerate() {
            earlier = self.halve(stage, &rungs, &candidates)?;
            candidates = kept(&earlier, pair[1].candidates);
        }
        let last = rungs.len() - 1;
        let mut ranked = self.halve(last, &rungs, &candidates)?;
        settle(&mut ranked);
        let rung = &rungs[last.saturating_sub(1)];
        let mut beside = self.beside(rung, &earlier, &ranked[0])?;
        let is_new =
            |better: &Measured| ranked.iter().all(|one| one.settings() != better.settings());
        if let Some(better) = beside.better.take().filter(is_new) {
            let what = "a better one beside it, with all images and seeds";
            let (last, candidates) =
                (self.request.budget.last(1), slice::from_ref(&better.candidate));
            let (found, _) = self.stage(what, &last, candidates)?;
            self.failed += candidates.len() - found.len();
            ranked.extend(found);
            rank(&mut ranked);
            settle(&mut ranked);
            if ranked[0].candidate.label == better.candidate.label {
                beside = self.beside(rung, &[better], &ranked[0])?;
            }
        }
        Ok(self.tuned(&ranked, beside))
    }

    /// One stage of those that leave ever fewer candidates.
    fn halve(
        &mut self,
        stage: usize,
        rungs: &[Rung],
        candidates: &[Candidate],
    ) -> Result<Vec<Measured>, Ended> {
        let Rung { images, rounds, .. } = rungs[stage];
        let what = format!(
            "stage {} of {}: {} candidates, {images} images per visit, {rounds} rounds",
            stage + 1,
            rungs.len(),
            candidates.len()
        );
        let (ranked, why) = self.stage(&what, &rungs[stage], candidates)?;
        if ranked.is_empty() {
            let why = why.as_deref().unwrap_or("no run has a result");
            return Err(Error::config(format!("every candidate failed, the first: {why}")).into());
        }
        self.failed += candidates.len() - ranked.len();
        Ok(ranked)
    }

    /// The candidates that did not fail, the best first, and why the first of the others did.
    fn stage(
        &mut self,
        what: &str,
        rung: &Rung,
        candidates: &[Candidate],
    ) -> Result<(Vec<Measured>, Option<String>), Ended> {
        let grid = self.request.grid(rung, candidates)?;
        let outcome = (self.measure)(what, &grid);
        if outcome.unfinished > 0 {
            return Err(Ended::Stopped);
        }
        let domains = self.request.domains().len();
        self.work.add(candidates.len() * rung.seeds.len(), rung.length() * domains);
        let measured = |one: &Candidate| Measured::new(one, (rung, domains), &grid, &outcome);
        let mut ranked: Vec<Measured> = candidates.iter().filter_map(measured).collect();
        rank(&mut ranked);
        Ok((ranked, outcome.failures.first().map(|failure| failure.error.clone())))
    }

    /// What becomes of the best candidate if a setting is moved, on the stream of an earlier stage, whose results are
    /// `rivals`, and the one that is better there, if there is one.
    fn beside(
        &mut self,
        rung: &Rung,
        rivals: &[Measured],
        best: &Measured,
    ) -> Result<Beside, Ended> {
        let space = &self.request.space;
        let reference = rivals.iter().find(|one| one.candidate.label == best.candidate.label);
        let reference = reference.unwrap_or(best).standing[0];
        let beside = space.neighbours(&space.part(best.settings()));
        let seeds = rung.seeds[..1].to_vec();
        let rung = Rung { candidates: beside.len(), seeds, ..rung.clone() };
        if beside.is_empty() {
            return Ok(Beside { neighbours: Vec::new(), rung, better: None });
        }
        let candidates: Vec<Candidate> =
            beside.iter().map(|(_, settings)| labelled(settings.clone())).collect();
        let (ranked, _) = self.stage("beside the best one", &rung, &candidates)?;
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
        Ok(Beside { neighbours, rung, better })
    }

    fn tuned(self, ranked: &[Measured], beside: Beside) -> Tuned {
        let Self { request, work, failed, .. } = self;
        let best = &ranked[0];
        let chosen = request.space.part(best.settings());
        let finalist = |one: &Measured| Finalist {
            is_usual: one.candidate.label == USUAL,
            chosen: request.space.part(one.settings()),
            accuracy: one.accuracy.clone(),
            standing: one.standing.clone(),
        };
        Tuned {
            method: request.method.clone(),
            weights_sha256: best.config.model.sha256.clone(),
            dataset: request.protocol.data.name.clone(),
            corruptions: request.domains().to_vec(),
            severity: request.protocol.scenario.severity,
            images: request.budget.images,
            batches: request.batches(),
            seeds: request.budget.seeds.clone(),
            at_edge: request.space.at_edge(&chosen).into_iter().map(Into::into).collect(),
            chosen,
            settings: best.settings().clone(),
            finalists: ranked.iter().map(finalist).collect(),
            neighbours: beside.neighbours,
            neighbours_stage: beside.rung,
            failed,
            work: Work { whole_grid_images: request.whole_grid(), ..work },
        }
    }
}
