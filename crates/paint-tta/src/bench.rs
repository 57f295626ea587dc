//! Several methods under one pinned protocol.
//!
//! A [`Protocol`] says what is measured, a [`Place`] where; a [`Grid`] is every run of every [`Variant`]. [`execute`]
//! runs what is not finished yet, so a grid that was killed goes on where it was. `examples/custom_method.rs` has a
//! whole program, with a method of its own among the others ([`Place::methods`]).
//!
//! ```
//! use paint_tta::bench::{Grid, Place, Protocol, Results, Variant, execute, results_terminal};
//! use paint_tta::settings::{Preset, Tent};
//!
//! # fn main() -> paint_tta::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let out = folder.path();
//! let mut protocol = Protocol::find("embedded")?;
//! protocol.scenario.domains = Some(vec!["fog".into()]);
//! protocol.scenario.limit = Some(5);
//!
//! let place = Place::new(out, "embedded");
//! let faster = Tent { lr: 1e-2, ..Tent::preset(Preset::VitCifar10) };
//! let variants = vec![
//!     Variant::plain("source"),
//!     Variant::plain("tent"),
//!     Variant::typed("tent, faster", &faster)?,
//! ];
//! let grid = Grid::new(protocol.resolve(&place)?, variants, &place)?;
//! let outcome = execute(&grid, 1, &Default::default(), &|_| ());
//! let results = Results::new(&grid, &outcome, "this example");
//! println!("{}", results_terminal(&results));
//! # assert_eq!(results.rows.len(), 3, "{:?}", results.failures);
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use paint_bench::Protocol;
#[doc(inline)]
pub use paint_bench::grid::{Grid, GridEvent, Outcome, Results, Variant, execute};
#[doc(inline)]
pub use paint_bench::protocol::Place;
#[doc(inline)]
pub use paint_bench::report::{Publication, publish, results_csv, results_latex, results_terminal};
