//! The commands, one file each: `Args`, then `run`.

pub(crate) mod adapt;
pub(crate) mod bench;
pub(crate) mod cam;
pub(crate) mod completions;
pub(crate) mod corrupt;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod train;
pub(crate) mod tune;
