//! How many candidates see how many images, and how often.

use serde::Serialize;

/// Each stage keeps one candidate in so many, and shows it so many times the images.
const FACTOR: usize = 3;

/// The most candidates of the last stage.
const FINALISTS: usize = 3;

/// The last stage goes over the corruptions so many times as often: settings that ruin a model need time to do so.
const LONG: usize = 3;

/// What a search may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Candidates of the first stage, the settings that the method has anyway among them.
    pub candidates: usize,
    /// Images of each visit of a corruption in the last stage.
    pub images: usize,
    /// Seeds of the last stage; the stages before it take the first.
    pub seeds: Vec<u64>,
    /// Rounds over the corruptions before the last stage.
    pub rounds: usize,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rung {
    /// Candidates, at most.
    pub candidates: usize,
    /// Images of each visit of a corruption.
    pub images: usize,
    /// Rounds over the corruptions.
    pub rounds: usize,
    /// One run of each candidate for each.
    pub seeds: Vec<u64>,
}

impl Rung {
    /// Images of each corruption in one run.
    pub fn length(&self) -> usize {
        self.images * self.rounds
    }

    /// Images of each corruption, over all runs.
    pub fn cost(&self) -> usize {
        self.candidates * self.length() * self.seeds.len()
    }
}

impl Budget {
    /// The stages, the last one with all images, rounds and seeds. Earlier ones take whole batches.
    pub fn rungs(&self, batch_size: usize) -> Vec<Rung> {
        let mut counts = vec![self.candidates];
        while counts[counts.len() - 1] > FINALISTS {
            counts.push(counts[counts.len() - 1].div_ceil(FACTOR));
        }
        let last = counts.len() - 1;
        let images = |stage: usize| {
            let share = (stage..last).fold(self.images, |images, _| images / FACTOR);
            (share / batch_size * batch_size).max(batch_size).min(self.images)
        };
        let first_seed = &self.seeds[..self.seeds.len().min(1)];
        let rung = |(stage, &candidates): (usize, &usize)| {
            if stage == last {
                return self.last(candidates);
            }
            let seeds = first_seed.to_vec();
            Rung { candidates, images: images(stage), rounds: self.rounds, seeds }
        };
        counts.iter().enumerate().map(rung).collect()
    }

    /// The last stage with so many candidates.
    pub fn last(&self, candidates: usize) -> Rung {
        let (images, rounds) = (self.images, self.rounds * LONG);
        Rung { candidates, images, rounds, seeds: self.seeds.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(candidates: usize, images: usize) -> Vec<[usize; 4]> {
        let budget = Budget { candidates, images, seeds: vec![4, 5, 6], rounds: 2 };
        let rungs = budget.rungs(50);
        assert!(rungs.iter().all(|rung| rung.seeds[0] == 4));
        let shape = |rung: &Rung| [rung.candidates, rung.images, rung.rounds, rung.seeds.len()];
        rungs.iter().map(shape).collect()
    }

    #[test]
    fn a_third_of_the_candidates_sees_three_times_the_images() {
        assert_eq!(shape(27, 450), [[27, 50, 2, 1], [9, 150, 2, 1], [3, 450, 6, 3]]);
        assert_eq!(shape(10, 1000), [[10, 100, 2, 1], [4, 300, 2, 1], [2, 1000, 6, 3]]);
        // Few images make short stages, never empty ones, and never longer than the last.
        assert_eq!(shape(27, 60), [[27, 50, 2, 1], [9, 50, 2, 1], [3, 60, 6, 3]]);
        assert_eq!(shape(9, 20), [[9, 20, 2, 1], [3, 20, 6, 3]]);
        assert_eq!(shape(2, 450), [[2, 450, 6, 3]]);
    }

    #[test]
    fn the_usual_search_costs_less_than_a_fifth_of_the_whole_grid() {
        let budget = Budget { candidates: 27, images: 450, seeds: vec![0, 1, 2], rounds: 3 };
        let beside = 12 * budget.rungs(50)[1].length() + budget.last(1).cost();
        let cost = budget.rungs(50).iter().map(Rung::cost).sum::<usize>() + beside;
        let whole = budget.last(27).cost();
        assert!(5 * cost < whole, "{cost} of {whole}");
    }
}
