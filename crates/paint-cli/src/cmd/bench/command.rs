//! The command that gives results again, as it stands beside them.

use std::path::{Path, PathBuf};

use paint_run::model::embedded;

use super::grid::Args;
use super::shell;
use crate::flags::NetworkFlags;

/// The command line without what only this machine knows.
pub(super) fn command(args: &Args) -> String {
    let mut words = vec!["paint bench".to_owned()];
    let mut flag = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| match value.as_str() {
            "" => format!("--{name}"),
            value => format!("--{name} {}", shell::word(value)),
        }));
    };
    // A user's protocol lies beside the results under this name.
    let own = |name: &String| Path::new(name).extension().is_some();
    let protocol = args.protocol.clone();
    flag("protocol", protocol.map(|name| if own(&name) { "protocol.toml".into() } else { name }));
    flag("reproduce", args.reproduce.clone());
    flag("methods", (!args.methods.is_empty()).then(|| args.methods.join(",")));
    args.sweep.iter().for_each(|sweep| flag("sweep", Some(sweep.clone())));
    args.preset.words().for_each(|name| flag("preset", Some(name)));
    args.tuned.words().for_each(|name| flag("tuned", Some(name)));
    args.set.assignments.iter().for_each(|set| flag("set", Some(set.clone())));
    flag("guard", args.wrap.guard.then(String::new));
    flag("stream", args.wrap.stream.then(String::new));
    flag("seeds", args.seeds.clone());
    flag("limit", args.limit.map(|limit| limit.to_string()));
    flag("dataset", args.dataset.clone());
    flag("data", args.data.as_ref().map(|_| "DATA".into()));
    flag("corrupt", args.corrupt.then(String::new));
    args.source.words().into_iter().for_each(|(name, value)| flag(name, Some(value)));
    flag("clean-data", args.clean_data.as_ref().map(|_| "CLEAN".into()));
    let weights = args.weights.as_ref();
    let named = |path: &PathBuf| path.as_os_str() == embedded::NAME;
    flag(
        "weights",
        weights.map(|path| if named(path) { embedded::NAME } else { "WEIGHTS" }.into()),
    );
    let NetworkFlags { batch_size, seed, compute } = &args.network;
    flag("batch-size", batch_size.map(|size| size.to_string()));
    flag("seed", seed.seed.map(|seed| seed.to_string()));
    flag("device", compute.device.clone().filter(|device| device != "cpu"));
    flag("precision", compute.precision.clone().filter(|precision| precision != "f32"));
    words.join(" ")
}
