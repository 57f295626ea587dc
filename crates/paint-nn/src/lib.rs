//! Networks, losses, optimizers and checkpoints.
//!
//! A step of test-time adaptation, here TENT's: let gradients reach the norms, take the entropy, step.
//!
//! ```
//! use paint_nn::backbone::{self, BuildOptions, Request, Weights};
//! use paint_nn::loss::mean_entropy;
//! use paint_nn::optim::{Group, Optimizer, Rule, Sgd};
//! use paint_nn::params::Trainable;
//! use paint_rng::Seed;
//! use paint_tensor::{Device, Tensor};
//!
//! # fn main() -> paint_nn::Result<()> {
//! let device = Device::cpu();
//! let entry = backbone::find("vit_tiny_patch4_32")?;
//! let mut model = entry.build(Weights::Random(Seed(0)), &BuildOptions::new(&device))?;
//! let norms = Group { select: Trainable::NormAffine, lr: 1e-3 };
//! let mut optimizer = Optimizer::new(Rule::Sgd(Sgd::default()), vec![norms]);
//!
//! let images = Tensor::full([2, 3, 32, 32], 0.5, &device)?;
//! model.params_mut().track(&Trainable::NormAffine);
//! let logits = model.forward(&images, &Request::default())?.logits;
//! let gradients = mean_entropy(&logits)?.backward()?;
//! optimizer.step(model.params_mut(), &gradients)?;
//! assert_eq!(logits.shape(), [2, 10]);
//! # Ok(())
//! # }
//! ```

pub mod backbone;
pub mod checkpoint;
pub mod error;
mod layers;
pub mod loss;
pub mod optim;
pub mod params;
pub mod prompt;
pub mod state;

pub use error::{Error, Misfit, Result};
