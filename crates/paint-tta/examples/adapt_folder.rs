//! Adapts a model to a folder of unlabelled images and prints a class for each. What is learnt is kept in a file,
//! with which the next call goes on.
//!
//! ```sh
//! cargo run --release -p paint-tta --example adapt_folder -- model.safetensors images/ state.safetensors
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};

use paint_tta::settings::Paint;
use paint_tta::{Adapter, Image};

const BATCH: usize = 50;

/// A class for every image of `folder`, in the order of their file names.
pub(crate) fn adapt_folder(
    weights: &Path,
    folder: &Path,
    state: &Path,
) -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let entries = folder.read_dir()?.map(|entry| Ok(entry?.path()));
    let mut files: Vec<PathBuf> = entries.collect::<std::io::Result<_>>()?;
    files.sort();
    let mut adapter = Adapter::builder(weights).settings(&Paint::default())?.open()?;
    if state.exists() {
        adapter.load(state)?;
    }
    let mut named = Vec::new();
    for batch in files.chunks(BATCH) {
        let images = batch.iter().map(|file| Image::open_upright(file));
        let step = adapter.step(&images.collect::<Result<Vec<_>, _>>()?)?;
        for (file, prediction) in batch.iter().zip(step.predictions) {
            let class = adapter.class_name(prediction.class).map(str::to_owned);
            named.push((file.clone(), class.unwrap_or_else(|| prediction.class.to_string())));
        }
    }
    adapter.save(state)?;
    Ok(named)
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [weights, folder, state] = &arguments[..] else {
        return Err("usage: adapt_folder WEIGHTS FOLDER STATE".into());
    };
    for (file, class) in adapt_folder(weights, folder, state)? {
        println!("{} {class}", file.display());
    }
    Ok(())
}
