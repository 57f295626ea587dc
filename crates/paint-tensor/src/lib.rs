//! Arrays on a device, and their gradients.
//!
//! A [`Tensor`] is an immutable, contiguous, row-major block of `f32` numbers on a [`Device`]. Operations
//! are coarse (a linear layer, a layer norm, a whole attention) and each has a hand-written backward rule. A frozen
//! input costs nothing in backward: no rule is recorded where no input is tracked, and a rule computes only the
//! gradients that are asked for.
//!
//! ```
//! use paint_tensor::{Device, Tensor};
//! # fn main() -> paint_tensor::Result<()> {
//! let device = Device::cpu();
//! let x = Tensor::from_vec(vec![1.0, 2.0, 3.0, 4.0], [2, 2], &device)?;
//! let w = Tensor::from_vec(vec![0.5, -1.0], [1, 2], &device)?.variable();
//! let loss = x.linear(&w, None)?.sum_all()?;
//! let gradients = loss.backward()?;
//! assert_eq!(gradients.get(&w).expect("w is tracked").to_vec()?, [4.0, 6.0]);
//! # Ok(())
//! # }
//! ```

mod backend;
mod device;
mod error;
mod lane;
mod op;
mod routine;
mod shape;
mod tape;
mod tensor;

pub use backend::cpu::pool_bytes;
pub use backend::{BACKENDS, BackendEntry, DeviceInfo, Memory, Precision, StepRule};
pub use device::Device;
pub use error::{Error, Result};
pub use lane::in_lane;
pub use op::alignment::{Aligned, Alignment, evidence};
pub use op::batch_norm::{BatchNorm, BnMode, Moments};
pub use op::conv::Conv2d;
pub use op::distort::{BLUR_TAPS, ColorOp, Distortion, Noise};
pub use op::images::{Draw, Edge, Images, Rect, Tone, View};
pub use op::mlp::Mlp;
pub use op::reduce::largest;
pub use op::step::{StepParam, SteppedParam, TrainingStep};
pub use op::windows::Windows;
pub use routine::Routine;
pub use tape::Gradients;
pub use tensor::{Fetch, Tensor};
