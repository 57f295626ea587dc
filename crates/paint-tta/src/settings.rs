//! The settings of every method, typed.
//!
//! Each type has a field for every key, and knows its method's name ([`Settings::METHOD`]). [`Default`] gives the
//! values of the default preset, for the baselines those of a vision transformer on ImageNet; `preset` gives others.
//! Later versions may add keys, so end a literal with `..`:
//!
//! ```
//! use paint_tta::Adapter;
//! use paint_tta::settings::Paint;
//!
//! # fn main() -> paint_tta::Result<()> {
//! let paint = Paint { eta: 0.4, lr_blocks: 2e-4, ..Paint::default() };
//! let adapter = Adapter::builder("embedded").settings(&paint)?.open()?;
//! assert_eq!(adapter.settings()["preset"].as_str(), Some("paper_adam"));
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use paint_methods::configs::*;
