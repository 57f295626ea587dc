//! A step that says which batch would have fitted where the GPU had no room for this one.

use paint_methods::{Method, Step};
use paint_tensor::Tensor;

use crate::{Error, Result};

/// [`Method::step`]. Where memory runs out, halves of the batch are tried until one fits, and the error tells its size;
/// the state is as it was before.
pub fn step(method: &mut dyn Method, images: &Tensor) -> Result<Step> {
    match method.step(images) {
        Err(error) if error.is_out_of_memory() => {
            let batch = images.shape().first().copied().unwrap_or(0);
            let state = method.save()?;
            let fits = std::iter::successors(Some(batch / 2), |size| Some(size / 2))
                .take_while(|&size| size > 0)
                .find(|&size| takes(method, images, size));
            method.load(&state)?;
            Err(Error::BatchTooLarge { batch, fits: fits.unwrap_or(0), source: error })
        }
        step => Ok(step?),
    }
}

fn takes(method: &mut dyn Method, images: &Tensor, size: usize) -> bool {
    images.slice(0, 0, size).is_ok_and(|images| method.step(&images).is_ok())
}

#[cfg(test)]
mod tests {
    use paint_methods::State;
    use paint_tensor::Device;

    use super::*;

    /// A method with room for so many images, which counts its steps.
    struct Cramped {
        room: usize,
        steps: u64,
    }

    impl Method for Cramped {
        fn step(&mut self, images: &Tensor) -> paint_methods::Result<Step> {
            if images.shape()[0] > self.room {
                let error = paint_tensor::Error::OutOfMemory { wanted: 1, used: 2, total: 2 };
                return Err(paint_methods::Error::Nn(error.into()));
            }
            self.steps += 1;
            Ok(Step { logits: images.clone(), scalars: Vec::new(), prompt: None })
        }

        fn predict(&self, images: &Tensor) -> paint_methods::Result<Tensor> {
            Ok(images.clone())
        }

        fn reset(&mut self) -> paint_methods::Result<()> {
            Ok(())
        }

        fn save(&self) -> paint_methods::Result<State> {
            let mut state = State::default();
            state.counters.insert("steps".into(), self.steps);
            Ok(state)
        }

        fn load(&mut self, state: &State) -> paint_methods::Result<()> {
            self.steps = state.counters["steps"];
            Ok(())
        }

        fn trainable(&self) -> Vec<String> {
            Vec::new()
        }
    }

    fn images(count: usize) -> Tensor {
        Tensor::zeros([count, 3], &Device::cpu()).unwrap()
    }

    #[test]
    fn the_error_names_a_batch_that_fits_and_nothing_was_learnt() {
        let mut method = Cramped { room: 15, steps: 4 };
        let error = step(&mut method, &images(50)).err().unwrap();
        assert!(matches!(error, Error::BatchTooLarge { batch: 50, fits: 12, .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("a batch of 50") && message.contains("one of 12"), "{message}");
        assert_eq!(method.steps, 4);
        assert!(step(&mut method, &images(15)).is_ok());
    }

    #[test]
    fn where_not_even_one_image_fits_the_error_says_so() {
        let error = step(&mut Cramped { room: 0, steps: 0 }, &images(8)).err().unwrap();
        assert!(error.to_string().contains("not even one image"), "{error}");
    }
}
