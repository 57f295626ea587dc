//! How many candidates see how many images.

use serde::Serialize;

/// Each round keeps one candidate in so many, and shows it so many times the images.
const FACTOR: usize = 3;

/// The most candidates of the last round.
const FINALISTS: usize = 3;

/// What a search may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Candidates of the first round, the settings that the method has anyway among them.
    pub candidates: usize,
    /// Images of each corruption in the last round.
    pub images: usize,
    /// Seeds of the last round; the rounds before it take the first.
    pub seeds: Vec<u64>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rung {
    /// Candidates, at most.
    pub candidates: usize,
    /// Images of each corruption.
    pub images: usize,
    /// One run of each candidate for each.
    pub seeds: Vec<u64>,
}

impl Rung {
    /// Images of each corruption, over all runs.
    pub fn cost(&self) -> usize {
        self.candidates * self.images * self.seeds.len()
    }
}

impl Budget {
    /// The rounds, the last one with all images and seeds. Earlier ones take whole batches.
    pub fn rungs(&self, batch_size: usize) -> Vec<Rung> {
        let mut counts = vec![self.candidates];
        while counts[counts.len() - 1] > FINALISTS {
            counts.push(counts[counts.len() - 1].div_ceil(FACTOR));
        }
        let last = counts.len() - 1;
        let images = |round: usize| {
            let share = (round..last).fold(self.images, |images, _| images / FACTOR);
            (share / batch_size * batch_size).max(batch_size).min(self.images)
        };
        let first_seed = &self.seeds[..self.seeds.len().min(1)];
        let rung = |(round, &candidates): (usize, &usize)| match round {
            _ if round == last => {
                Rung { candidates, images: self.images, seeds: self.seeds.clone() }
            }
            _ => Rung { candidates, images: images(round), seeds: first_seed.to_vec() },
        };
        counts.iter().enumerate().map(rung).collect()
    }

    /// Images of each corruption, over all runs of all candidates with all images and seeds.
    pub fn whole_grid(&self) -> usize {
        self.candidates * self.images * self.seeds.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(candidates: usize, images: usize) -> Vec<(usize, usize, usize)> {
        let budget = Budget { candidates, images, seeds: vec![4, 5, 6] };
        let rungs = budget.rungs(50);
        assert!(rungs.iter().all(|rung| rung.seeds[0] == 4));
        rungs.iter().map(|rung| (rung.candidates, rung.images, rung.seeds.len())).collect()
    }

    #[test]
    fn a_third_of_the_candidates_sees_three_times_the_images() {
        assert_eq!(shape(27, 450), [(27, 50, 1), (9, 150, 1), (3, 450, 3)]);
        assert_eq!(shape(10, 1000), [(10, 100, 1), (4, 300, 1), (2, 1000, 3)]);
        // Few images make short rounds, never empty ones, and never longer than the last.
        assert_eq!(shape(27, 60), [(27, 50, 1), (9, 50, 1), (3, 60, 3)]);
        assert_eq!(shape(9, 20), [(9, 20, 1), (3, 20, 3)]);
        assert_eq!(shape(2, 450), [(2, 450, 3)]);
    }

    #[test]
    fn the_usual_search_costs_less_than_a_fifth_of_the_whole_grid() {
        let budget = Budget { candidates: 27, images: 450, seeds: vec![0, 1, 2] };
        let cost: usize = budget.rungs(50).iter().map(Rung::cost).sum();
        assert!(5 * cost < budget.whole_grid(), "{cost} of {}", budget.whole_grid());
    }
}
