//! Images that were answered and wait to be learnt from.

use std::collections::VecDeque;
use std::time::Instant;

use paint_tensor::Tensor;

/// Parts of batches, the oldest first; bounded.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    parts: VecDeque<Tensor>,
    count: usize,
    since: Option<Instant>,
}

fn images(part: &Tensor) -> usize {
    part.shape().first().copied().unwrap_or(0)
}

impl Pending {
    /// Adds images; of more than `most` the oldest are dropped. Says how many were.
    pub(crate) fn push(&mut self, part: Tensor, most: usize) -> usize {
        self.count += images(&part);
        self.parts.push_back(part);
        self.since.get_or_insert_with(Instant::now);
        let mut dropped = 0;
        while self.count > most && self.parts.len() > 1 {
            let oldest = self.parts.pop_front().map_or(0, |part| images(&part));
            self.count -= oldest;
            dropped += oldest;
        }
        dropped
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Since when the oldest waits.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Bytes of the images.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| 4 * part.elem_count()).sum()
    }

    /// Takes the oldest images, at most `count`, as one batch; none if there are none.
    pub(crate) fn take(&mut self, count: usize) -> paint_tensor::Result<Option<Tensor>> {
        let mut taken = Vec::new();
        let mut left = count.min(self.count);
        self.count -= left;
        while left > 0
            && let Some(part) = self.parts.pop_front()
        {
            let have = images(&part);
            if have > left {
                taken.push(part.slice(0, 0, left)?);
                self.parts.push_front(part.slice(0, left, have - left)?);
                left = 0;
            } else {
                left -= have;
                taken.push(part);
            }
        }
        self.since = (self.count > 0).then(Instant::now);
        if taken.is_empty() {
            return Ok(None);
        }
        Tensor::concat(&taken.iter().collect::<Vec<_>>(), 0).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn part(values: &[f32]) -> Tensor {
        Tensor::from_vec(values.to_vec(), [values.len(), 1], &Device::cpu()).unwrap()
    }

    #[test]
    fn images_are_taken_in_their_order_and_the_oldest_dropped() {
        let mut pending = Pending::default();
        assert_eq!(pending.push(part(&[1.0, 2.0]), 5), 0);
        assert_eq!(pending.push(part(&[3.0, 4.0]), 5), 0);
        let first = pending.take(3).unwrap().unwrap();
        assert_eq!(first.to_vec().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!((pending.len(), pending.bytes()), (1, 4));
        assert_eq!(pending.push(part(&[5.0; 5]), 5), 1);
        assert_eq!(pending.take(9).unwrap().unwrap().to_vec().unwrap(), [5.0; 5]);
        assert!(pending.take(9).unwrap().is_none() && pending.since().is_none());
    }
}
