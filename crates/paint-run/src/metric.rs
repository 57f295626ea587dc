//! What is measured, per visit of a domain, per domain and overall.
//!
//! Everything is counted from logits on the host, in double precision and in the order of the stream, so that a run
//! that was stopped and continued gives the same numbers. Expected calibration error uses [`ECE_BINS`] bins of equal
//! width over the confidence (the largest probability): `ECE = Σ_b n_b/n |acc_b − conf_b|`, bin `b` being
//! `(b/15, (b+1)/15]`.

mod glance;
mod matching;
mod rate;
mod score;
mod tally;

use std::time::Duration;

use paint_methods::PromptUse;
use paint_rng::Fnv;
use serde::{Deserialize, Serialize};

use crate::watch::Passes;
pub use glance::Glance;
pub use matching::Matching;
pub use rate::Rate;
pub use score::Score;
pub use tally::{ECE_BINS, Tally};

/// One stretch of the stream in one domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// The segment of the stream.
    pub segment: usize,
    /// The domain of every image, `None` where several are mixed.
    pub domain: Option<usize>,
    /// What was counted.
    pub tally: Tally,
}

/// What the runner knows of one batch once it is predicted.
pub(crate) struct Outcome<'a> {
    pub(crate) segment: usize,
    /// The domain of each image.
    pub(crate) domains: &'a [usize],
    pub(crate) scores: &'a [Score],
    pub(crate) prompt: Option<&'a PromptUse>,
    pub(crate) duration: Duration,
}

impl Outcome<'_> {
    /// The one domain of the batch, if it has one.
    fn domain(&self) -> Option<usize> {
        let first = *self.domains.first()?;
        self.domains.iter().all(|domain| *domain == first).then_some(first)
    }
}

/// All counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// In the order of the stream.
    pub visits: Vec<Visit>,
    /// By domain of the dataset, in the order of first appearance; times and prompts are not split.
    pub domains: Vec<(usize, Tally)>,
    /// Over all images.
    pub overall: Tally,
    /// Prompts against true domains.
    pub matching: Matching,
    /// True once a prompt was used.
    pub prompted: bool,
    /// What the method asked of its network, where it is watched.
    #[serde(default)]
    pub passes: Passes,
    /// What a probe saw after each visit.
    #[serde(default)]
    pub glances: Vec<Glance>,
    /// FNV-1a over the bits of all logits in order: equal hashes, equal predictions.
    pub logits_hash: u64,
}

impl Meter {
    pub(crate) fn record(&mut self, batch: &Outcome<'_>) {
        let domain = batch.domain();
        match self.visits.last_mut().filter(|visit| visit.segment == batch.segment) {
            Some(visit) => visit.domain = visit.domain.filter(|known| Some(*known) == domain),
            None => {
                self.visits.push(Visit { segment: batch.segment, domain, tally: Tally::default() });
            }
        }
        let visit = self.visits.last_mut().expect("one was pushed above if there was none");
        let made = batch.prompt.map_or(0, |prompt| prompt.made.len());
        for tally in [&mut visit.tally, &mut self.overall] {
            tally.add_batch(batch.duration, made);
        }
        for (score, &domain) in batch.scores.iter().zip(batch.domains) {
            visit.tally.add(score);
            self.overall.add(score);
            tally_of(&mut self.domains, domain).add(score);
        }
        if let Some(prompt) = batch.prompt {
            self.prompted = true;
            if let Some(domain) = domain {
                self.matching.record(domain, prompt);
            }
        }
    }

    /// Folds the logits of one batch into the hash.
    pub(crate) fn hash_logits(&mut self, logits: &[f32]) {
        let mut hash = Fnv(self.logits_hash);
        logits.iter().flat_map(|logit| logit.to_bits().to_le_bytes()).for_each(|x| hash.feed(x));
        self.logits_hash = hash.0;
    }

    /// The mean of the visits' accuracies in percent, as the field reports it: every visit counts the same.
    pub fn mean_accuracy(&self) -> Option<f64> {
        let accuracies: Option<Vec<f64>> =
            self.visits.iter().map(|visit| visit.tally.accuracy()).collect();
        accuracies
            .filter(|all| !all.is_empty())
            .map(|all| all.iter().sum::<f64>() / all.len() as f64)
    }
}

fn tally_of(domains: &mut Vec<(usize, Tally)>, domain: usize) -> &mut Tally {
    let at = domains.iter().position(|(known, _)| *known == domain).unwrap_or_else(|| {
        domains.push((domain, Tally::default()));
        domains.len() - 1
    });
    &mut domains[at].1
}

/// The largest resident memory of this process in MiB, where the system tells it.
pub fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// Lets [`peak_memory_mib`] start anew, where the system can.
pub fn restart_peak_memory() {
    // 5 resets the high-water mark; a system that refuses leaves the peak of the whole process, which is no lie either.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome<'a>(
        segment: usize,
        domains: &'a [usize],
        scores: &'a [Score],
        prompt: Option<&'a PromptUse>,
    ) -> Outcome<'a> {
        Outcome { segment, domains, scores, prompt, duration: Duration::from_millis(10) }
    }

    /// A batch predicted with prompt `index`, for which `made` were allocated.
    fn used(index: usize, made: &[usize]) -> PromptUse {
        let allocated = made.contains(&index);
        PromptUse { index, allocated, made: made.to_vec(), reliability: None }
    }

    fn score(correct: bool) -> Score {
        Score { predicted: 0, confidence: 0.5, correct: Some(correct), nll: Some(1.0) }
    }

    #[test]
    fn visits_count_the_same_however_long_and_domains_are_pooled() {
        let mut meter = Meter::default();
        let (right, wrong) = (score(true), score(false));
        meter.record(&outcome(0, &[3, 3], &[right, right], None));
        meter.record(&outcome(1, &[5, 5], &[wrong, wrong], None));
        meter.record(&outcome(1, &[5, 5], &[wrong, right], None));
        meter.record(&outcome(2, &[3], &[wrong], None));
        let accuracies: Vec<_> = meter.visits.iter().map(|v| v.tally.accuracy().unwrap()).collect();
        assert_eq!(accuracies, [100.0, 25.0, 0.0]);
        assert_eq!(meter.mean_accuracy(), Some(125.0 / 3.0));
        assert_eq!(meter.overall.accuracy(), Some(300.0 / 7.0));
        assert_eq!(meter.domains[0].1.accuracy(), Some(200.0 / 3.0));
        assert!(!meter.prompted);
    }

    #[test]
    fn a_mixed_visit_has_no_domain_but_its_images_do() {
        let mut meter = Meter::default();
        meter.record(&outcome(0, &[1, 1], &[score(true), score(true)], None));
        meter.record(&outcome(0, &[1, 2], &[score(true), score(false)], None));
        assert_eq!((meter.visits.len(), meter.visits[0].domain), (1, None));
        assert_eq!(meter.domains.iter().map(|(d, _)| *d).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(meter.domains[1].1.accuracy(), Some(0.0));
    }

    #[test]
    fn matching_follows_the_prompt_first_made_for_a_domain() {
        let mut meter = Meter::default();
        let one = [score(true)];
        // Domain 0 makes prompt 0 and uses it; domain 1 borrows 0 twice, makes 1 and uses it once.
        for (domain, index, made) in
            [(0, 0, &[0][..]), (0, 0, &[]), (1, 0, &[]), (1, 0, &[]), (1, 1, &[1])]
        {
            meter.record(&outcome(domain, &[domain], &one, Some(&used(index, made))));
        }
        assert_eq!(meter.matching.per_batch(), 3.0 / 5.0);
        assert_eq!(meter.matching.per_domain(), 1.0 / 2.0);
        assert_eq!(meter.overall.prompts_allocated, 2);
    }

    #[test]
    fn all_prompts_that_a_batch_made_are_counted() {
        let mut meter = Meter::default();
        meter.record(&outcome(0, &[0], &[score(true)], Some(&used(4, &[3, 4]))));
        assert_eq!(meter.overall.prompts_allocated, 2);
        assert_eq!(meter.visits[0].tally.prompts_allocated, 2);
    }

    #[test]
    fn equal_logits_hash_equally_and_a_single_bit_changes_the_hash() {
        let hash = |logits: &[f32]| {
            let mut meter = Meter::default();
            meter.hash_logits(logits);
            meter.logits_hash
        };
        assert_eq!(hash(&[1.0, 2.0]), hash(&[1.0, 2.0]));
        assert_ne!(hash(&[1.0, 2.0]), hash(&[1.0, f32::from_bits(2.0_f32.to_bits() + 1)]));
        assert_ne!(hash(&[0.0]), hash(&[-0.0]));
    }

    #[test]
    fn counts_survive_json_to_the_bit() {
        let mut meter = Meter::default();
        for i in 0..50 {
            let nll = Some(1.0 / f64::from(i + 3));
            let score = Score { nll, confidence: 1.0 / f64::from(i + 2), ..score(i % 3 == 0) };
            let prompt = used(0, if i == 0 { &[0] } else { &[] });
            meter.record(&outcome(0, &[0], &[score], Some(&prompt)));
        }
        let text = serde_json::to_string(&meter).unwrap();
        assert_eq!(serde_json::from_str::<Meter>(&text).unwrap(), meter);
    }
}
