//! Settings that describe themselves.
//!
//! A struct declared with [`settings!`] is read and written by serde, refuses unknown keys, and knows the name,
//! meaning and range of each of its keys: the meaning is the doc comment, the range stands beside it. What
//! `paint explain` prints, what [`check`] refuses and where `paint tune` looks for better values come from that one
//! declaration.
//!
//! ```
//! use paint_settings::{Describe as _, at_least, between, check, choice, logarithmic, settings};
//!
//! choice! {
//!     /// How a gradient becomes an update
//!     pub enum Rule {
//!         /// Plain gradient descent
//!         Sgd = "sgd",
//!         /// Adam
//!         Adam = "adam",
//!     }
//! }
//!
//! settings! {
//!     /// The settings of a method
//!     #[derive(Debug)]
//!     pub struct Config {
//!         /// Learning rate
//!         #[within(at_least(0.0))]
//!         #[tuned(logarithmic(1e-4, 1e-1))]
//!         lr: f64,
//!         /// Share of the samples that are kept
//!         #[within(between(0.0, 1.0))]
//!         keep: f64,
//!         /// Update rule
//!         rule: Rule,
//!     }
//! }
//!
//! let keys = Config::KIND.keys();
//! assert_eq!((keys[1].name, keys[1].meaning()), ("keep", "Share of the samples that are kept".into()));
//! assert_eq!(keys[2].kind.to_string(), "sgd or adam");
//! assert_eq!(keys[0].search.map(|search| search.ends()), Some([1e-4, 1e-1]));
//! let table: toml::Table = "lr = 0.1\nkeep = 1.5\nrule = 'adam'".parse().unwrap();
//! assert_eq!(check(keys, &table).unwrap_err().to_string(), "keep: expected 0 to 1, got 1.5");
//! ```

mod check;
mod interval;
mod key;
mod macros;
mod read;
mod search;

pub use check::{OutOfRange, check, check_fields};
pub use interval::{Interval, above, above_to, at_least, between, from_to_below};
pub use key::{Choice, Describe, Key, Kind};
pub use read::{Misread, read};
pub use search::{Search, linear, logarithmic};

// The declarations name this crate, in its own tests too.
#[cfg(test)]
extern crate self as paint_settings;
#[doc(hidden)]
pub use serde;
