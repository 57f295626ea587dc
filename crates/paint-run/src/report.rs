//! Results for people and programs: tables, files, pages.

mod event_log;
pub mod html;
mod table;

pub use event_log::EventLog;
pub use table::{csv, markdown, quoted, terminal};
