//! Pages: one file each, which needs no network and follows the reader's dark or light setting.

mod accuracy;
mod bench;
mod cam;
mod chart;
mod cost;
mod demo;
mod embed;
mod forgetting;
mod leaderboard;
mod page;
mod paper;
mod picture;
mod prompts;
mod returns;
mod significance;
mod stream;
mod sweep;
mod table;
mod visits;

pub use bench::{BenchPage, bench_page};
pub use cam::{CamMap, CamShot, cam_page};
pub use demo::{DemoPage, Run, demo_page};
pub use embed::Shot;
pub use picture::picture;
pub use stream::Trace;
