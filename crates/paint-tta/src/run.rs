//! One method on one stream of labelled images, measured.
//!
//! An [`Experiment`] is opened from a [`Config`], which is one TOML document; `paint run` writes and reads the same.
//! It can be killed at any time and continues with [`Earlier::Resume`].
//!
//! ```
//! use paint_tta::run::{Draft, Earlier, Event, Experiment};
//!
//! # fn main() -> paint_tta::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let out = folder.path().to_str().unwrap();
//! let text = "
//!     [model]
//!     weights = 'embedded'
//!     [data]
//!     name = 'embedded'
//!     corrupt = { table = 'cifar' }
//!     [scenario]
//!     domains = ['fog', 'snow']
//!     limit = 5
//!     [method]
//!     name = 'tent'
//! ";
//! let mut draft = Draft::parse(text, "this example")?;
//! draft.set("out", out)?;
//! let experiment = Experiment::open(draft.resolve()?)?;
//! let summary = experiment.run(Earlier::Keep, |event: &Event| {
//!     if let Event::DomainDone(domain) = event {
//!         println!("{} {:?}", domain.name, domain.figures.accuracy);
//!     }
//! })?;
//! assert_eq!(summary.domains.len(), 2);
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use paint_run::config::Method;
#[doc(inline)]
pub use paint_run::{Config, Draft, Earlier, Event, Experiment, Observer, Summary};
