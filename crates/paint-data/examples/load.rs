//! Our side of `bench/compare_loading.py`: loads every image of a folder once and prints the images and the seconds.
//!
//! usage: `load FOLDER BATCH_SIZE THREADS plain|resize` (`resize`: short side to 256, centre crop to 224)

use std::{error::Error, io::Write as _, path::Path, sync::Arc, time::Instant};

use paint_data::{
    Dataset, Loader, ReadAhead, dataset,
    image::{Filter, Preprocess},
    scenario,
};
use paint_rng::Seed;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, batch_size, threads, transform] = &args[..] else {
        return Err("usage: load FOLDER BATCH_SIZE THREADS plain|resize".into());
    };
    let preprocess = match transform.as_str() {
        "plain" => Preprocess::default(),
        "resize" => Preprocess::resize_and_crop(256, 224, Filter::Bilinear),
        other => return Err(format!("unknown transform {other:?}").into()),
    };
    let data: Arc<dyn Dataset> = Arc::from((dataset::entry("folder")?.open)(
        Path::new(folder),
        &dataset::Options::default(),
    )?);
    let config =
        scenario::Config { batch_size: batch_size.parse()?, ..scenario::Config::default() };
    let stream = config.stream(&*data, Seed(0))?;
    let start = Instant::now();
    let (mut images, mut sum) = (0, 0.0);
    for batch in
        Loader::new(data, stream, preprocess, ReadAhead { threads: threads.parse()?, batches: 4 })
    {
        let batch = batch?;
        images += batch.shape[0];
        sum += batch.images[0];
    }
    writeln!(std::io::stdout(), "{images} {} {sum}", start.elapsed().as_secs_f64())?;
    Ok(())
}
