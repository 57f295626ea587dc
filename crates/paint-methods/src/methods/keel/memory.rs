//! Which domain images come from: a bounded memory, read as a hidden Markov chain (Eq. 7 and 8).

#[cfg(test)]
mod tests;

use paint_nn::state::State;
use paint_tensor::{Device, Tensor};

use super::domain::{Domain, blend};
use super::keys::{Keys, WINDOW, apart, mean, mean_square};
use crate::statistics::SourceStatistics;
use crate::{Error, Result};

/// `f`, the independent channels that the `4 D` of a key count for: neighbours are correlated.
const FREEDOM: f64 = 12.0;
/// The probability that the domain changes from one image to the next.
const CHANGE: f64 = 1e-3;
/// The variance of the mean of a domain that has not been met, in those of clean images.
const UNSEEN: f64 = 1.0;
/// The variance that a batch's mean keeps however many images it has, in those of an image: batches differ in their
/// classes.
const LEAST: f64 = 0.03;
/// The most images taken for clean that are looked at together.
const SUSPECTS: u64 = 200;
/// Images that the spread of a new domain is taken on trust for.
const TRUST: f32 = 20.0;
/// The least spread, and the fewest images that tell one about their own mean.
const SPREAD: (f32, usize) = (0.25, 8);

// The spread about a known centre is computed from rows, and batches of `WINDOW` images or more read none.
const _: () = assert!(SPREAD.1 <= WINDOW);

/// The domains met so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) domains: Vec<Domain>,
    /// The probability that the present images are clean.
    clean: f32,
    /// The mean key of the images that were taken for clean since the last that were not, and how many, bounded.
    suspects: (Vec<f32>, u64),
    /// Keys of the last images, while batches are small.
    window: Vec<Vec<f32>>,
    /// The number of the next domain.
    next: u64,
}

/// `-f/2 (d / v + ln v)`: the log density of a mean squared distance `d` under variance `v`, up to a constant.
fn log_density(d: f64, v: f64) -> f64 {
    -FREEDOM / 2.0 * (d / v + v.ln())
}

/// How well the mean `key` of `b` images fits a domain (Eq. 7).
fn fit(key: &[f32], b: usize, domain: &Domain) -> f64 {
    let n = domain.key_images.max(1) as f64;
    let v = f64::from(domain.spread) * (1.0 / b as f64 + 1.0 / n + LEAST);
    log_density(mean_square(key, Some(&domain.key)), v)
}

/// How well the mean `key` of `n` images fits clean images, whose keys have mean 0 and variance 1. `least` is
/// [`LEAST`], or what several batches leave of it.
fn fit_clean(key: &[f32], n: usize, clean_images: u64, least: f64) -> f64 {
    log_density(mean_square(key, None), 1.0 / n as f64 + 1.0 / clean_images as f64 + least)
}

/// How well it fits none that has been met.
fn fit_unseen(key: &[f32], n: usize) -> f64 {
    log_density(mean_square(key, None), 1.0 / n as f64 + UNSEEN)
}

fn argmax(values: &[f64]) -> Option<usize> {
    (0..values.len()).max_by(|&i, &j| values[i].total_cmp(&values[j]).then(j.cmp(&i)))
}

impl Memory {
    /// How probable it is that the mean `key` of the next `b` images comes from each domain, from clean images, or from
    /// none that has been met: logarithms, up to a constant (Eq. 7 and 8).
    fn posterior(&self, key: &[f32], b: usize, clean_images: u64) -> (Vec<f64>, f64, f64) {
        let change = 1.0 - (1.0 - CHANGE).powi(b.min(10_000) as i32);
        let share = change / (self.domains.len() + 2) as f64;
        let reached = |weight: f32| ((1.0 - change) * f64::from(weight) + share).ln();
        let of = |domain: &Domain| reached(domain.weight) + fit(key, b, domain);
        let clean = reached(self.clean) + fit_clean(key, b, clean_images, LEAST);
        (self.domains.iter().map(of).collect(), clean, reached(0.0) + fit_unseen(key, b))
    }

    /// The domain that images of these keys are of, if they come next; none where they are clean. Nothing changes.
    pub(super) fn find(&self, keys: &Keys) -> Option<usize> {
        let (fits, clean, _) = self.posterior(&keys.mean, keys.images, keys.clean_images);
        argmax(&fits).filter(|&at| fits[at] > clean)
    }

    /// The place of the domain that a batch belongs to, which learns its key; a new one where none fits (Eq. 8); none
    /// where the images are clean. `is_mixed` says that classes do not come in runs, `blocks` are those of the
    /// network, `bound` is the most images that count.
    pub(super) fn assign(
        &mut self,
        keys: &Keys,
        is_mixed: bool,
        blocks: usize,
        (capacity, bound): (usize, u64),
    ) -> Result<Option<usize>> {
        let b = keys.images;
        let small = b < WINDOW;
        if small {
            self.watch(keys, blocks);
        } else {
            self.window.clear();
        }
        let key = keys.mean.clone();
        let (mut fits, clean, unseen) = self.posterior(&key, b, keys.clean_images);
        if !small && unseen > clean && fits.iter().all(|&fit| unseen > fit) {
            self.create(key.clone(), blocks);
            fits.push(unseen);
        }
        let found = argmax(&fits).filter(|&at| fits[at] > clean);
        let largest = found.map_or(clean, |at| fits[at]);
        let odds = |fit: f64| (fit - largest).exp();
        let total = odds(clean) + fits.iter().map(|&fit| odds(fit)).sum::<f64>();
        self.clean = (odds(clean) / total) as f32;
        for (domain, &fit) in self.domains.iter_mut().zip(&fits) {
            domain.weight = (odds(fit) / total) as f32;
        }
        let at = match found {
            Some(at) => {
                self.suspects = Default::default();
                self.domains[at].learn(keys, &key, bound);
                at
            }
            None => match self.suspect(&key, keys, is_mixed, blocks) {
                Some(at) => at,
                None => return Ok(None),
            },
        };
        Ok(Some(if self.domains.len() > capacity { self.merge(at)? } else { at }))
    }

    /// Images taken for clean one batch at a time may be a domain near to it, which many of them together tell: over
    /// batches of mixed classes what sets single ones apart averages out. The new domain then.
    fn suspect(
        &mut self,
        key: &[f32],
        keys: &Keys,
        is_mixed: bool,
        blocks: usize,
    ) -> Option<usize> {
        let b = keys.images as u64;
        let (mean, n) = &mut self.suspects;
        *n = (*n).min(SUSPECTS) + b;
        let rho = b as f32 / *n as f32;
        blend(mean, key.to_vec(), rho);
        let (n, least) = (*n, if is_mixed { LEAST * f64::from(rho) } else { LEAST });
        let clean = fit_clean(mean, n as usize, keys.clean_images, least);
        if CHANGE.ln() + fit_unseen(mean, n as usize) <= clean {
            return None;
        }
        let (key, n) = std::mem::take(&mut self.suspects);
        self.found(key, n, blocks);
        self.domains.len().checked_sub(1)
    }

    /// A new domain that the present images certainly belong to.
    fn found(&mut self, key: Vec<f32>, images: u64, blocks: usize) {
        self.clean = 0.0;
        self.domains.iter_mut().for_each(|domain| domain.weight = 0.0);
        self.create(key, blocks);
        if let Some(domain) = self.domains.last_mut() {
            domain.key_images = images;
        }
    }

    /// Forgets which domain the last images were of. The next are taken for clean unless they fit a domain better by as
    /// much as it takes to leave one.
    pub(super) fn leave(&mut self) {
        self.clean = 1.0;
        self.domains.iter_mut().for_each(|domain| domain.weight = 0.0);
        self.window.clear();
        self.suspects = Default::default();
    }

    /// Small batches: a new domain where the last [`WINDOW`] images together are neither clean nor of one that is
    /// known.
    fn watch(&mut self, keys: &Keys, blocks: usize) {
        self.window.extend_from_slice(&keys.rows);
        self.window.drain(..self.window.len().saturating_sub(WINDOW));
        if self.window.len() < WINDOW {
            return;
        }
        let key = mean(&self.window);
        let unseen = (CHANGE * WINDOW as f64).ln() + fit_unseen(&key, WINDOW);
        let is_new = unseen > fit_clean(&key, WINDOW, keys.clean_images, LEAST)
            && self.domains.iter().all(|domain| unseen > fit(&key, WINDOW, domain));
        if is_new {
            self.found(key, WINDOW as u64, blocks);
            self.window.clear();
        }
    }

    fn create(&mut self, key: Vec<f32>, blocks: usize) {
        self.domains.push(Domain::new(self.next, key, blocks));
        self.next += 1;
    }

    /// Joins the two domains whose keys are nearest, other than the one at `kept`. Returns where that one is now.
    fn merge(&mut self, kept: usize) -> Result<usize> {
        let others: Vec<usize> = (0..self.domains.len()).filter(|&at| at != kept).collect();
        let pairs =
            others.iter().enumerate().flat_map(|(i, &a)| others[..i].iter().map(move |&b| (b, a)));
        let apart = |&(b, a): &(usize, usize)| {
            mean_square(&self.domains[a].key, Some(&self.domains[b].key))
        };
        let Some((b, a)) = pairs.min_by(|x, y| apart(x).total_cmp(&apart(y))) else {
            return Ok(kept);
        };
        let gone = self.domains.remove(a);
        self.domains[b].absorb(gone)?;
        Ok(if kept > a { kept - 1 } else { kept })
    }

    /// Everything, under names of its own.
    pub(super) fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.counters.insert("next".into(), self.next);
        state.counters.insert("domains".into(), self.domains.len() as u64);
        let row = |data: Vec<f32>| Tensor::from_vec(data.clone(), [data.len()], &Device::cpu());
        state.tensors.insert("clean".into(), row(vec![self.clean])?);
        if !self.suspects.0.is_empty() {
            state.tensors.insert("suspects".into(), row(self.suspects.0.clone())?);
            state.counters.insert("suspects".into(), self.suspects.1);
        }
        if !self.window.is_empty() {
            let (rows, flat) = (self.window.len(), self.window.concat());
            let shape = [rows, flat.len() / rows];
            state.tensors.insert("window".into(), Tensor::from_vec(flat, shape, &Device::cpu())?);
        }
        for (i, domain) in self.domains.iter().enumerate() {
            state.nest(&i.to_string(), domain.save()?);
        }
        Ok(state)
    }

    /// What [`Memory::save`] gave, for a network with these statistics on a device, and at most `capacity` domains.
    pub(super) fn load(
        state: &State,
        (source, device): (&SourceStatistics, &Device),
        capacity: usize,
    ) -> Result<Self> {
        let count = state.counter("domains")?;
        if count > capacity as u64 {
            let expected = format!("at most {capacity} domains");
            return Err(Error::State { expected, found: count.to_string() });
        }
        let load = |i| Domain::load(&state.part(&u64::to_string(&i)), source, device);
        let width = source.key_mean.len();
        let window = match state.tensors.get("window") {
            Some(rows) if rows.shape().last() == Some(&width) => {
                rows.to_vec()?.chunks_exact(width).map(<[f32]>::to_vec).collect()
            }
            Some(rows) => {
                let expected = format!("rows of {width} numbers in \"window\"");
                return Err(Error::State { expected, found: format!("{:?}", rows.shape()) });
            }
            None => Vec::new(),
        };
        let clean = match state.tensor("clean")?.to_vec()?[..] {
            [clean] if (0.0..=1.0).contains(&clean) => clean,
            ref found => {
                let expected = "a probability in \"clean\"".to_owned();
                return Err(Error::State { expected, found: format!("{found:?}") });
            }
        };
        let suspects = match state.tensors.get("suspects") {
            Some(key) if key.shape() == [width] => (key.to_vec()?, state.counter("suspects")?),
            Some(key) => {
                let expected = format!("{width} numbers in \"suspects\"");
                return Err(Error::State { expected, found: format!("{:?}", key.shape()) });
            }
            None => Default::default(),
        };
        Ok(Self {
            clean,
            suspects,
            domains: (0..count).map(load).collect::<Result<_>>()?,
            window,
            next: state.counter("next")?,
        })
    }
}

impl Domain {
    /// The key and the spread follow a batch's.
    fn learn(&mut self, keys: &Keys, key: &[f32], bound: u64) {
        let b = keys.images;
        let before = self.key_images.min(bound);
        self.key_images = before + b as u64;
        // Few images tell their spread about what is known of the domain, many about their own mean.
        let (apart, degrees) = if b < SPREAD.1 {
            (apart(&keys.rows, &self.key), b as f64 * (1.0 + 1.0 / before.max(1) as f64))
        } else {
            (keys.apart, (b - 1) as f64)
        };
        let spread = ((apart / degrees) as f32).max(SPREAD.0);
        let trusted = before as f32 + TRUST;
        self.spread = (self.spread * trusted + b as f32 * spread) / (trusted + b as f32);
        let rho = b as f32 / self.key_images as f32;
        self.key.iter_mut().zip(key).for_each(|(old, new)| *old += rho * (new - *old));
    }
}
