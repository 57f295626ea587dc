//! Results for people and programs: tables, files, pages.

mod class_name;
mod combine;
mod compare;
pub mod html;
mod notice;
mod publish;
mod readme;
mod results;

pub use class_name::class_name;
pub use combine::{combine, combine_timings};
pub use compare::{ComparedRow, Comparison, Matched};
pub use notice::notice;
pub use publish::{Publication, publish};
pub use readme::{readme_section, with_readme_section};
pub use results::{
    mixture_warnings, results_csv, results_latex, results_markdown, results_terminal,
};
