//! A memory of images whose predicted classes are balanced, as in `RoTTA` (Yuan et al., CVPR 2023, §3.3).
//!
//! Symbols: `N` capacity, `K` classes, `A` the age of an entry in images, `H` the entropy of its prediction. An entry's
//! score is `1 / (1 + e^(-A/N)) + H / ln K`; where there is no room, the worst entry of the most frequent class goes.

use paint_tensor::Tensor;

use crate::Result;
use crate::method::State;

/// One image.
#[derive(Debug, Clone)]
struct Entry {
    /// `[1, 3, H, W]`.
    image: Tensor,
    class: usize,
    /// `H / ln K`.
    uncertainty: f32,
    age: u64,
}

/// Images by their predicted classes.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    entries: Vec<Entry>,
    capacity: usize,
    classes: usize,
}

impl Memory {
    pub(super) fn new(capacity: usize, classes: usize) -> Self {
        Self { entries: Vec::new(), capacity, classes }
    }

    fn score(&self, entry: &Entry) -> f32 {
        1.0 / (1.0 + (-(entry.age as f32) / self.capacity as f32).exp()) + entry.uncertainty
    }

    fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes];
        self.entries.iter().for_each(|entry| counts[entry.class] += 1);
        counts
    }

    /// Takes an image `[1, 3, H, W]` in, if it is worth more than what would have to go.
    pub(super) fn add(&mut self, image: Tensor, class: usize, uncertainty: f32) {
        self.entries.iter_mut().for_each(|entry| entry.age += 1);
        let new = Entry { image, class, uncertainty, age: 0 };
        if self.entries.len() < self.capacity {
            self.entries.push(new);
            return;
        }
        let counts = self.counts();
        let most = counts.iter().copied().max().unwrap_or(0);
        let is_frequent = counts[class] == most;
        let goes = |entry: &Entry| {
            if is_frequent { entry.class == class } else { counts[entry.class] == most }
        };
        let worst = (0..self.entries.len())
            .filter(|&at| goes(&self.entries[at]))
            .max_by(|&a, &b| self.score(&self.entries[a]).total_cmp(&self.score(&self.entries[b])));
        if let Some(worst) = worst
            && (!is_frequent || self.score(&self.entries[worst]) > self.score(&new))
        {
            self.entries[worst] = new;
        }
    }

    /// `[n, 3, H, W]`; none while the classes are too few for a method that expects a mix: their entropy is below
    /// half of the greatest possible.
    pub(super) fn images(&self) -> Result<Option<Tensor>> {
        let total = self.entries.len() as f64;
        let entropy: f64 = self
            .counts()
            .into_iter()
            .filter(|&count| count > 0)
            .map(|count| count as f64 / total)
            .map(|share| -share * share.ln())
            .sum();
        let greatest = (self.classes.min(self.capacity) as f64).ln();
        if self.entries.len() < self.capacity / 2 || entropy < 0.5 * greatest {
            return Ok(None);
        }
        self.joined().map(Some)
    }

    fn joined(&self) -> Result<Tensor> {
        let images: Vec<&Tensor> = self.entries.iter().map(|entry| &entry.image).collect();
        Ok(Tensor::concat(&images, 0)?)
    }

    pub(super) fn save(&self) -> Result<State> {
        let mut state = State::default();
        if self.entries.is_empty() {
            return Ok(state);
        }
        let images = self.joined()?;
        let uncertainties: Vec<f32> = self.entries.iter().map(|entry| entry.uncertainty).collect();
        let uncertainties = Tensor::from_vec(uncertainties, [self.entries.len()], images.device())?;
        state.tensors.insert("images".into(), images);
        state.tensors.insert("uncertainties".into(), uncertainties);
        for (at, entry) in self.entries.iter().enumerate() {
            state.counters.insert(format!("{at:04}/class"), entry.class as u64);
            state.counters.insert(format!("{at:04}/age"), entry.age);
        }
        Ok(state)
    }

    pub(super) fn load(&mut self, state: &State) -> Result<()> {
        let mut entries = Vec::new();
        if let Some(images) = state.tensors.get("images") {
            let uncertainties = state.tensor("uncertainties")?.to_vec()?;
            for (at, &uncertainty) in uncertainties.iter().enumerate() {
                let class = state.counter(&format!("{at:04}/class"))? as usize;
                if class >= self.classes || uncertainties.len() > self.capacity {
                    return Err(crate::Error::State {
                        expected: format!("{} images of {} classes", self.capacity, self.classes),
                        found: format!("{} images, one of class {class}", uncertainties.len()),
                    });
                }
                let age = state.counter(&format!("{at:04}/age"))?;
                entries.push(Entry { image: images.slice(0, at, 1)?, class, uncertainty, age });
            }
        }
        self.entries = entries;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn image(value: f32) -> Tensor {
        Tensor::full([1, 3, 1, 1], value, &Device::cpu()).unwrap()
    }

    #[test]
    fn a_long_run_of_one_class_leaves_the_others_in_place() {
        let mut memory = Memory::new(8, 4);
        (0..8).for_each(|i| memory.add(image(i as f32), i % 4, 0.2));
        (0..100).for_each(|i| memory.add(image(100.0 + i as f32), 0, 0.2));
        assert_eq!(memory.counts(), [2, 2, 2, 2]);
        let newest = memory.entries.iter().filter(|entry| entry.class == 0).map(|entry| entry.age);
        assert_eq!(newest.max(), Some(1), "the old ones of the class went");
        // A sure prediction is worth more than an unsure one of the same class.
        memory.add(image(-1.0), 1, 0.0);
        memory.add(image(-2.0), 1, 0.95);
        assert!(memory.entries.iter().any(|entry| entry.uncertainty == 0.0));
        assert!(memory.entries.iter().all(|entry| entry.uncertainty < 0.9));
    }

    #[test]
    fn few_classes_are_nothing_to_learn_from() {
        let mut memory = Memory::new(8, 4);
        (0..8).for_each(|i| memory.add(image(i as f32), 0, 0.1));
        assert!(memory.images().unwrap().is_none());
        (0..4).for_each(|i| memory.add(image(i as f32), 1, 0.1));
        assert_eq!(memory.images().unwrap().unwrap().shape(), [8, 3, 1, 1]);
    }

    #[test]
    fn a_saved_memory_comes_back() {
        let mut memory = Memory::new(4, 3);
        (0..7).for_each(|i| memory.add(image(i as f32), i % 3, i as f32 / 10.0));
        let mut other = Memory::new(4, 3);
        other.load(&memory.save().unwrap()).unwrap();
        for (a, b) in memory.entries.iter().zip(&other.entries) {
            assert_eq!((a.class, a.age, a.uncertainty), (b.class, b.age, b.uncertainty));
            assert_eq!(a.image.to_vec().unwrap(), b.image.to_vec().unwrap());
        }
        assert!(Memory::new(2, 3).load(&memory.save().unwrap()).is_err());
    }
}
