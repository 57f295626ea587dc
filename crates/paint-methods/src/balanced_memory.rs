//! A memory of images whose predicted classes are balanced, of `RoTTA` (Yuan et al., CVPR 2023, §3.3), which streams
//! share.
//!
//! Symbols: `N` capacity, `K` classes, `A` the age of an entry in images, `H` the entropy of its prediction. An entry's
//! score is `1 / (1 + e^(-A/N)) + H / ln K`; where there is no room ([`Admission`]), the worst entry of the most
//! frequent class goes.

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

/// When an image has to take the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// When the memory is full. An image of a class that is not the most frequent one is always taken.
    Room,
    /// When the memory is full or its class has `N / K` images, as in `RoTTA`; the other has to be worse.
    Quota,
}

/// Images by their predicted classes.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    entries: Vec<Entry>,
    capacity: usize,
    classes: usize,
    admission: Admission,
}

impl Memory {
    pub(crate) fn new(capacity: usize, classes: usize, admission: Admission) -> Self {
        Self { entries: Vec::new(), capacity, classes, admission }
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
    pub(crate) fn add(&mut self, image: Tensor, class: usize, uncertainty: f32) {
        self.entries.iter_mut().for_each(|entry| entry.age = entry.age.saturating_add(1));
        let new = Entry { image, class, uncertainty, age: 0 };
        let counts = self.counts();
        let most = counts.iter().copied().max().unwrap_or(0);
        let is_frequent = match self.admission {
            Admission::Room => counts[class] == most,
            Admission::Quota => counts[class] * self.classes >= self.capacity,
        };
        let has_room = self.admission == Admission::Room || !is_frequent;
        if has_room && self.entries.len() < self.capacity {
            self.entries.push(new);
            return;
        }
        let goes = |entry: &Entry| {
            if is_frequent { entry.class == class } else { counts[entry.class] == most }
        };
        let worst = (0..self.entries.len())
            .filter(|&at| goes(&self.entries[at]))
            .max_by(|&a, &b| self.score(&self.entries[a]).total_cmp(&self.score(&self.entries[b])));
        if let Some(worst) = worst
            && ((self.admission == Admission::Room && !is_frequent)
                || self.score(&self.entries[worst]) > self.score(&new))
        {
            self.entries[worst] = new;
        }
    }

    /// `[n, 3, H, W]`; none while the classes are too few for a method that expects a mix: their entropy is below
    /// half of the greatest possible.
    pub(crate) fn images(&self) -> Result<Option<Tensor>> {
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

    /// `[n, 3, H, W]` class by class, the oldest first, and how many images each has been here, itself counted.
    pub(crate) fn lesson(&self) -> Result<(Tensor, Vec<u64>)> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| (entry.class, std::cmp::Reverse(entry.age)));
        let images: Vec<&Tensor> = entries.iter().map(|entry| &entry.image).collect();
        Ok((
            Tensor::concat(&images, 0)?,
            entries.iter().map(|entry| entry.age.saturating_add(1)).collect(),
        ))
    }

    fn joined(&self) -> Result<Tensor> {
        let images: Vec<&Tensor> = self.entries.iter().map(|entry| &entry.image).collect();
        Ok(Tensor::concat(&images, 0)?)
    }

    pub(crate) fn save(&self) -> Result<State> {
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

    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
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
        let mut memory = Memory::new(8, 4, Admission::Room);
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

    /// Two classes of a memory of four have two places each, whatever room there is.
    #[test]
    fn a_class_that_has_its_quota_takes_no_room_of_others() {
        let mut memory = Memory::new(4, 2, Admission::Quota);
        (0..4).for_each(|i| memory.add(image(i as f32), 0, 0.5));
        assert_eq!(memory.counts(), [2, 0], "two places are free");
        let (_, ages) = memory.lesson().unwrap();
        assert_eq!(ages, [2, 1], "the oldest went: all were as unsure");
        memory.add(image(9.0), 0, 0.9);
        assert_eq!(
            memory.lesson().unwrap().1,
            [3, 2],
            "one that is less sure by more than its age did not come in"
        );
        memory.add(image(7.0), 1, 0.1);
        let (images, ages) = memory.lesson().unwrap();
        assert_eq!((images.to_vec().unwrap()[6], ages), (7.0, vec![4, 3, 1]), "class by class");
    }

    #[test]
    fn few_classes_are_nothing_to_learn_from() {
        let mut memory = Memory::new(8, 4, Admission::Room);
        (0..8).for_each(|i| memory.add(image(i as f32), 0, 0.1));
        assert!(memory.images().unwrap().is_none());
        (0..4).for_each(|i| memory.add(image(i as f32), 1, 0.1));
        assert_eq!(memory.images().unwrap().unwrap().shape(), [8, 3, 1, 1]);
    }

    #[test]
    fn a_saved_memory_comes_back() {
        let mut memory = Memory::new(4, 3, Admission::Room);
        (0..7).for_each(|i| memory.add(image(i as f32), i % 3, i as f32 / 10.0));
        let mut other = Memory::new(4, 3, Admission::Room);
        other.load(&memory.save().unwrap()).unwrap();
        for (a, b) in memory.entries.iter().zip(&other.entries) {
            assert_eq!((a.class, a.age, a.uncertainty), (b.class, b.age, b.uncertainty));
            assert_eq!(a.image.to_vec().unwrap(), b.image.to_vec().unwrap());
        }
        assert!(Memory::new(2, 3, Admission::Room).load(&memory.save().unwrap()).is_err());
    }
}
