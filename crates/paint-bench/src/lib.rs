//! Comparisons of methods: what is compared, how it is run, and how the outcome is shown.
//!
//! A [`Protocol`] pins everything that decides a number and is named by a hash; a [`grid`] runs methods, orders and
//! seeds under it, one [`paint_run::Experiment`] per cell; [`significance`](grid) and [`reference`](mod@reference)
//! put the figures beside each other and beside the paper's; [`report`] writes tables, files and one HTML page;
//! [`cam`] draws where a method looked. [`reproduce`] names the paper's tables and figures as grids; [`tune`] looks
//! for the best settings of a method.

pub mod cam;
pub mod grid;
pub mod protocol;
pub mod reference;
mod repeated;
pub mod report;
pub mod reproduce;
pub mod tune;

pub use paint_run::{Error, Result};
pub use protocol::Protocol;
