//! Results for people and programs: tables, files, pages.

mod combine;
mod compare;
mod csv;
pub mod html;
mod latex;
mod markdown;
mod notice;
mod number;
mod publish;
mod readme;
#[cfg(test)]
mod sample;
mod sweep;
mod terminal;

pub use combine::{combine, combine_timings, mixture_warnings};
pub use compare::{ComparedRow, Comparison, Matched, references};
pub use csv::results_csv;
pub use latex::results_latex;
pub use markdown::results_markdown;
pub use notice::notice;
pub use publish::{Publication, publish};
pub use readme::{readme_section, with_readme_section};
pub use terminal::results_terminal;
