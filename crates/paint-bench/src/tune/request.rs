//! What a search is asked for, checked, and the grids it makes of that.

use paint_data::corruption::{CORRUPTIONS, HELD_OUT_PAIRS};
use paint_run::{Error, Result};
use toml::Table;

use super::candidate::{Candidate, USUAL, labelled};
use super::schedule::{Budget, Rung};
use super::space::Space;
use crate::grid::{Grid, Variant};
use crate::protocol::{Place, Protocol};
use crate::repeated::repeated;

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
        if let Some(name) = repeated(domains, |a, b| a == b) {
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

    /// Batches of one run of the last stage.
    pub(super) fn batches(&self) -> usize {
        let Rung { images, rounds, .. } = self.budget.last(1);
        images.div_ceil(self.protocol.scenario.batch_size) * rounds * self.domains().len()
    }

    /// The first stage as a grid, which refuses what a method or the data cannot do before anything runs.
    pub fn first_grid(&self) -> Result<Grid> {
        let rungs = self.rungs();
        self.grid(&rungs[0], &self.candidates())
    }

    /// The settings that the method has anyway, then the candidates of the space.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let usual = Candidate { label: USUAL.into(), settings: Table::new() };
        let others = self.space.candidates(self.budget.candidates - 1).into_iter();
        std::iter::once(usual).chain(others.map(labelled)).collect()
    }

    pub(super) fn grid(&self, rung: &Rung, candidates: &[Candidate]) -> Result<Grid> {
        let mut protocol = self.protocol.clone();
        protocol.scenario.limit = Some(rung.images);
        protocol.scenario.rounds = Some(rung.rounds);
        protocol.seeds.clone_from(&rung.seeds);
        let row = |one: &Candidate| Variant::with(&one.label, &self.method, one.settings.clone());
        let rows = candidates.iter().map(row).collect();
        Grid::new(protocol.resolve(&self.place)?, rows, &self.place)
    }
}
