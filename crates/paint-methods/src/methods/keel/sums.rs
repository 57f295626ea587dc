//! Sums over the patches of a batch, on the device until they are blended into a domain. A read makes the host wait for
//! a GPU, so that those of many blocks take one together.

use std::sync::Arc;

use paint_tensor::Tensor;

use super::domain::{Domain, blend};
use crate::Result;

/// Sums over the patches of a batch after one block.
#[derive(Debug)]
pub(super) struct Sums {
    block: usize,
    images: usize,
    /// Patches of all images.
    rows: usize,
    /// `Σ x`, `[D]`, and `Σ P Pᵀ`, `[r²]`. Both are stored in full, as all that is read together must be.
    pair: [Tensor; 2],
}

impl Sums {
    /// Of `x` `[B, T, D]` and of `P` `[B, T, r]`, without the first `prefix` tokens. Those are few: their sum is
    /// subtracted from that of all, so that the patches need not be copied.
    pub(super) fn of(
        block: usize,
        (tokens, projected): (&Tensor, &Tensor),
        prefix: usize,
    ) -> Result<Self> {
        let [b, t, d] = tokens.dims3("tokens")?;
        let [_, _, r] = projected.dims3("projected tokens")?;
        let rows = b * (t - prefix);
        let patches = projected.slice(1, prefix, t - prefix)?;
        let square = patches.reshape([rows, r])?.gram()?.reshape([r * r])?;
        let mut sum = tokens.reshape([b * t, d])?.sum(0)?;
        if prefix > 0 {
            sum = sum.sub(&tokens.slice(1, 0, prefix)?.reshape([b * prefix, d])?.sum(0)?)?;
        }
        Ok(Self { block, images: b, rows, pair: [sum, square] })
    }

    /// Blends sums over one batch into the statistics of its domain (Eq. 1).
    pub(super) fn blend(batch: &[Self], domain: &mut Domain) -> Result<()> {
        let parts: Vec<&Tensor> = Self::parts(batch).collect();
        Self::blend_read(batch, &Tensor::concat(&parts, 0)?.to_vec()?, domain);
        Ok(())
    }

    /// What the host reads of them, in order.
    pub(super) fn parts(batch: &[Self]) -> impl Iterator<Item = &Tensor> {
        batch.iter().flat_map(|of| &of.pair)
    }

    /// The same as [`Self::blend`] with [`Self::parts`] as the host has read them.
    pub(super) fn blend_read(batch: &[Self], read: &[f32], domain: &mut Domain) {
        let mut rest = read;
        for Self { block, images, rows, pair } in batch {
            let rho = *images as f32 / domain.images as f32;
            let share = 1.0 / *rows as f32;
            let state = Arc::make_mut(&mut domain.patches[*block]);
            for (old, sum) in [&mut state.mean, &mut state.square].into_iter().zip(pair) {
                let (new, after) = rest.split_at(sum.elem_count());
                blend(old, new.iter().map(|x| x * share).collect(), rho);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use paint_nn::backbone::{AfterBlock, Backbone as _, Request};
    use paint_tensor::Device;
    use toml::toml;

    use super::super::tests::{keel, scalar, tiny, vit};
    use super::*;

    fn tensor(shape: [usize; 3], start: f32) -> Tensor {
        let data = (0..shape.iter().product()).map(|i: usize| start + (i * i % 7) as f32).collect();
        Tensor::from_vec(data, shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn sums_of_many_blocks_become_what_those_of_each_would() {
        let domain = || {
            let mut domain = Domain::new(0, Vec::new(), 3);
            domain.images = 8;
            let state = Arc::make_mut(&mut domain.patches[2]);
            (state.mean, state.square) = (vec![1.0, 2.0, 3.0, 4.0], vec![0.5; 4]);
            domain
        };
        let of = |block| {
            let start = block as f32;
            let (tokens, projected) = (tensor([2, 3, 4], start), tensor([2, 3, 2], -start));
            Sums::of(block, (&tokens, &projected), 0).unwrap()
        };
        let (mut together, mut alone) = (domain(), domain());
        Sums::blend(&[of(2), of(0)], &mut together).unwrap();
        for block in [0, 2] {
            Sums::blend(&[of(block)], &mut alone).unwrap();
            let flat = tensor([2, 3, 4], block as f32).reshape([6, 4]).unwrap();
            let mean = flat.mean(0).unwrap().to_vec().unwrap();
            let flat = tensor([2, 3, 2], -(block as f32)).reshape([6, 2]).unwrap();
            let square = flat.transpose(0, 1).unwrap().matmul(&flat).unwrap();
            let square = square.scale(1.0 / 6.0).unwrap().to_vec().unwrap();
            let mut expected = domain().patches[block].as_ref().clone();
            blend(&mut expected.mean, mean, 0.25);
            blend(&mut expected.square, square, 0.25);
            for found in [&together.patches[block], &alone.patches[block]] {
                assert_eq!(found.mean, expected.mean, "block {block}");
                assert_eq!(found.square, expected.square, "block {block}");
            }
        }
        assert!(together.patches[1].mean.is_empty());
    }

    #[test]
    fn tokens_before_the_patches_do_not_count() {
        for prefix in [0, 1, 4] {
            let (tokens, projected) = (tensor([2, 6, 4], 1.0), tensor([2, 6, 2], -1.0));
            let of = Sums::of(0, (&tokens, &projected), prefix).unwrap();
            let patches = |x: &Tensor| x.slice(1, prefix, 6 - prefix).unwrap();
            let alone = Sums::of(0, (&patches(&tokens), &patches(&projected)), 0).unwrap();
            assert_eq!((of.images, of.rows), (2, 2 * (6 - prefix)));
            for (of, alone) in of.pair.iter().zip(&alone.pair) {
                // Whole numbers below 2^24: exact in any order.
                assert_eq!(of.to_vec().unwrap(), alone.to_vec().unwrap(), "{prefix}");
            }
        }
    }

    /// Keeps the mean of the patches after block 0.
    #[derive(Debug, Default)]
    struct First(RefCell<Vec<f32>>);

    impl AfterBlock for First {
        fn after_block(
            &self,
            index: usize,
            prefix: usize,
            tokens: Tensor,
        ) -> paint_nn::Result<Tensor> {
            let [b, t, d] = tokens.dims3("tokens")?;
            if index == 0 {
                let patches = tokens.slice(1, prefix, t - prefix)?;
                *self.0.borrow_mut() = patches.reshape([b * (t - prefix), d])?.mean(0)?.to_vec()?;
            }
            Ok(tokens)
        }
    }

    /// Every batch counts, whether or not a map is made of it.
    #[test]
    fn statistics_follow_every_batch_and_maps_some() {
        let model = vit(3);
        let mut method = keel(&model, &toml! { preset = "vit_cifar10" prior = false });
        let (mut seen, mut mean) = (0, Vec::new());
        let mut before = vec![Vec::new(); 6];
        for (seed, (b, made)) in [(20, 20), (10, 20), (5, 20), (30, 65)].into_iter().enumerate() {
            let images = tiny(seed as u64, b, [0.6, 1.0]);
            assert_eq!(scalar(&method.step(&images).unwrap(), "domain"), 0.0);
            let first = First::default();
            let request = Request { after_block: Some(&first), ..Request::default() };
            model.forward(&images, &request).unwrap();
            seen += b;
            blend(&mut mean, first.0.into_inner(), b as f32 / seen as f32);
            let state = method.save().unwrap();
            let part = |name: &str| {
                state.tensor(&format!("form/0/patch.{name}")).unwrap().to_vec().unwrap()
            };
            let found = part("0.mean");
            assert_eq!(found.len(), mean.len());
            for (found, mean) in found.iter().zip(&mean) {
                // 1e-5: sums of 320 values of about 1 in float32, taken in another order.
                assert!((found - mean).abs() < 1e-5, "{seen} images: {found} and {mean}");
            }
            assert_eq!(state.counter("form/0/patch.0.map.seen").unwrap(), made);
            assert_eq!(part("0.map.centre") == found, made == seen as u64, "{seen} images");
            let after: Vec<Vec<f32>> = (0..3)
                .flat_map(|block| ["mean", "square"].map(|name| part(&format!("{block}.{name}"))))
                .collect();
            assert!(before.iter().zip(&after).all(|(before, after)| before != after));
            before = after;
        }
    }
}
