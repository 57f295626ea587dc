//! Operations on the tokens `[B, N, D]` of images while they pass through a network, which a method looks at and
//! changes. A GPU has kernels for them that neither wait for the host nor copy what stays.

use crate::{Result, Tensor};

impl Tensor {
    /// Mean and variance of every channel over the tokens of an image from `first` on: `[B, N, D]` → `[B, D]` each.
    pub fn token_moments(&self, first: usize) -> Result<[Self; 2]> {
        let [b, n, d] = self.dims3("tokens")?;
        if first >= n {
            return Err(self.shape_error("tokens", format!("more than {first} for each image")));
        }
        if !self.requires_grad() {
            let device = self.device();
            let found = device.backend().token_moments(self.storage(), [b, n, d], first)?;
            if let Some(found) = found {
                return Ok(found.map(|part| Self::frozen(vec![b, d], part, device.clone())));
            }
        }
        let tokens = if first == 0 { self.clone() } else { self.slice(1, first, n - first)? };
        let mean = tokens.mean(1)?;
        let centred = tokens.sub(&mean.reshape([b, 1, d])?)?;
        Ok([mean, centred.mul(&centred)?.mean(1)?])
    }

    /// Tokens `[B, N, D]` whose first are those of `part`, `[B, P, D]` with `P <= N`; written over the old ones where
    /// nobody else holds them.
    pub fn with_first_tokens(mut self, part: &Self) -> Result<Self> {
        let ([b, n, d], [images, p, width]) = (self.dims3("tokens")?, part.dims3("first tokens")?);
        if [images, width] != [b, d] || p > n {
            return Err(part.shape_error("first tokens", format!("[{b}, at most {n}, {d}]")));
        }
        self.device().check_same(part.device(), "first tokens")?;
        if !self.requires_grad() && !part.requires_grad() && self.overwrite(part, [n * d, p * d])? {
            return Ok(self);
        }
        if p == n {
            return Ok(part.clone());
        }
        Self::concat(&[part, &self.slice(1, p, n - p)?], 1)
    }

    fn overwrite(&mut self, part: &Self, row_and_width: [usize; 2]) -> Result<bool> {
        let device = self.device().clone();
        device.backend().overwrite_first(self.storage_mut(), part.storage(), row_and_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn tokens(shape: [usize; 3], start: f32) -> Tensor {
        let data = (0..shape.iter().product()).map(|i: usize| start + (i * i % 7) as f32).collect();
        Tensor::from_vec(data, shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn the_first_tokens_are_exchanged_and_others_keep_theirs() {
        let old = tokens([2, 3, 2], 0.0);
        let kept = old.to_vec().unwrap();
        let new = old.clone().with_first_tokens(&tokens([2, 1, 2], 10.0)).unwrap();
        let expected = [&[10.0, 11.0], &kept[2..6], &[14.0, 12.0], &kept[8..]].concat();
        assert_eq!(new.to_vec().unwrap(), expected);
        assert_eq!(old.to_vec().unwrap(), kept);
        assert_eq!(new.clone().with_first_tokens(&old).unwrap().to_vec().unwrap(), kept);
        // Nobody else holds these.
        let new = old.with_first_tokens(&tokens([2, 1, 2], 10.0)).unwrap();
        assert_eq!(new.to_vec().unwrap(), expected);
    }

    #[test]
    fn moments_are_those_of_the_tokens_that_count() {
        let data = vec![9.0, 9.0, 1.0, 4.0, 3.0, 10.0, 9.0, 9.0, 5.0, 5.0, 5.0, 7.0];
        let tokens = Tensor::from_vec(data, [2, 3, 2], &Device::cpu()).unwrap();
        let moments = tokens.token_moments(1).unwrap().map(|part| part.to_vec().unwrap());
        assert_eq!(moments, [[2.0, 7.0, 5.0, 6.0], [1.0, 9.0, 0.0, 1.0]]);
    }

    #[test]
    fn other_sizes_are_refused() {
        let old = tokens([2, 3, 2], 0.0);
        for part in [[2, 4, 2], [1, 1, 2], [2, 1, 3]] {
            let error = old.clone().with_first_tokens(&tokens(part, 0.0)).unwrap_err().to_string();
            assert!(error.contains("[2, at most 3, 2]"), "{error}");
        }
        assert!(old.token_moments(3).is_err());
    }
}
