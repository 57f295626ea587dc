//! Our side of `bench/compare_loading.py`: loads every image of a folder once and prints the images and the seconds.
//!
//! usage: `load FOLDER BATCH_SIZE THREADS plain|resize` (`resize`: short side to 256, centre crop to 224)

use std::{error::Error, io::Write as _, path::Path, sync::Arc, time::Instant};

use paint_data::{
    Dataset, Domain, Info, Loader, ReadAhead, Sample, dataset,
    image::{Filter, Preprocess},
    scenario,
};
use paint_rng::Seed;

/// Images as a network would take them.
struct Preprocessed {
    inner: Box<dyn Dataset>,
    preprocess: Preprocess,
}

impl Dataset for Preprocessed {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn domains(&self) -> &[Domain] {
        self.inner.domains()
    }

    fn len(&self, domain: usize) -> usize {
        self.inner.len(domain)
    }

    fn label(&self, domain: usize, index: usize) -> Option<usize> {
        self.inner.label(domain, index)
    }

    fn sample(&self, domain: usize, index: usize) -> paint_data::Result<Sample> {
        let Sample { image, label } = self.inner.sample(domain, index)?;
        Ok(Sample { image: self.preprocess.apply(image)?, label })
    }
}

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
    let inner = (dataset::entry("folder")?.open)(Path::new(folder), &dataset::Options::default())?;
    let data = Arc::new(Preprocessed { inner, preprocess });
    let config =
        scenario::Config { batch_size: batch_size.parse()?, ..scenario::Config::default() };
    let stream = config.stream(&*data, Seed(0))?;
    let start = Instant::now();
    let (mut images, mut sum) = (0, 0.0);
    let ahead = ReadAhead { threads: threads.parse()?, batches: 4 };
    for batch in Loader::new(data, stream, ahead) {
        let batch = batch?;
        images += batch.shape[0];
        sum += batch.images[0];
    }
    writeln!(std::io::stdout(), "{images} {} {sum}", start.elapsed().as_secs_f64())?;
    Ok(())
}
