use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use paint_rng::Seed;

use super::*;
use crate::{Domain, Image, Info, scenario};

/// Image `i` is filled with `i`; some fail, some panic, some have another size, and all take a random while.
struct Slow {
    info: Info,
    domains: [Domain; 1],
    len: usize,
    started: AtomicUsize,
}

const FAILS: usize = 17;
const PANICS: usize = 23;
const WIDER: usize = 29;

impl Slow {
    fn new(len: usize) -> Arc<Self> {
        let info = Info { name: "slow", num_classes: 256, class_indices: None, class_names: None };
        Arc::new(Self { info, domains: [Domain::clean()], len, started: AtomicUsize::new(0) })
    }
}

impl Dataset for Slow {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, _domain: usize) -> usize {
        self.len
    }

    fn label(&self, _domain: usize, index: usize) -> Option<usize> {
        Some(index)
    }

    fn sample(&self, _domain: usize, index: usize) -> Result<Sample> {
        self.started.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_micros(
            Seed(9).derive("sleep", &[index as u64]).below(300) as u64
        ));
        match index {
            FAILS => Err(Error::image("a sound file", "damage", "image-17.jpg")),
            PANICS => panic!("a broken decoder"),
            _ => {
                let width = if index == WIDER { 4 } else { 3 };
                Ok(Sample {
                    image: Image::new(width, 2, vec![index as u8; width * 6])?,
                    label: Some(index),
                })
            }
        }
    }
}

fn stream(data: &dyn Dataset, batch_size: usize) -> Stream {
    scenario::Config { batch_size, ..scenario::Config::default() }.stream(data, Seed(0)).unwrap()
}

#[test]
fn batches_come_in_order_with_their_images_labels_and_errors() {
    for (threads, batches) in [(1, 1), (2, 3), (7, 2), (3, 100)] {
        let data = Slow::new(50);
        let ahead = ReadAhead { threads, batches };
        let loader = Loader::new(data.clone(), stream(&*data, 4), ahead);
        let all: Vec<Result<Batch>> = loader.collect();
        assert_eq!(all.len(), 13);
        for (b, batch) in all.into_iter().enumerate() {
            let indices: Vec<usize> = (4 * b..50.min(4 * b + 4)).collect();
            match batch {
                Ok(batch) => {
                    assert_eq!(batch.shape, [indices.len(), 3, 2, 3]);
                    assert_eq!(batch.labels, indices.iter().map(|&i| Some(i)).collect::<Vec<_>>());
                    let expected: Vec<f32> =
                        indices.iter().flat_map(|&i| [i as f32 / 255.0; 18]).collect();
                    assert_eq!(batch.images, expected);
                }
                Err(error) => {
                    let text = error.to_string();
                    let expected = match b {
                        4 => "image-17.jpg",
                        5 => "a broken decoder",
                        7 => "2x4 at index 29",
                        _ => panic!("batch {b}: {text}"),
                    };
                    assert!(text.contains(expected), "{text}");
                }
            }
        }
    }
}

#[test]
fn damaged_images_are_left_out_and_listed_where_they_may_be_skipped() {
    let data = Slow::new(28);
    let ahead = ReadAhead::default();
    let loader = Loader::skipping_damaged(data.clone(), stream(&*data, 1), ahead);
    let batches: Vec<Batch> = loader.collect::<Result<_>>().unwrap();
    for (index, batch) in batches.iter().enumerate() {
        let is_damaged = [FAILS, PANICS].contains(&index);
        assert_eq!(batch.damaged.len(), usize::from(is_damaged), "{index}");
        assert_eq!(batch.plan.samples.len(), usize::from(!is_damaged), "{index}");
    }
    assert!(batches[FAILS].damaged[0].why.contains("image-17.jpg"));
    assert_eq!((batches[FAILS].shape, batches[FAILS].damaged[0].sample.index), ([0, 3, 0, 0], 17));

    let loader = Loader::skipping_damaged(data.clone(), stream(&*data, 28), ahead);
    let [batch] = &loader.collect::<Result<Vec<_>>>().unwrap()[..] else { panic!() };
    assert_eq!((batch.shape, batch.damaged.len()), ([26, 3, 2, 3], 2));
    assert_eq!(batch.labels[17], Some(18));
    assert_eq!((batch.plan.samples[17].index, batch.images[17 * 18]), (18, 18.0 / 255.0));

    // An image of another size is no damage.
    let data = Slow::new(30);
    let mut loader = Loader::skipping_damaged(data.clone(), stream(&*data, 30), ahead);
    assert!(loader.next().unwrap().is_err());
}

#[test]
fn images_are_decoded_by_as_many_threads_as_compute_unless_a_number_is_given() {
    let data = Slow::new(8);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let threads = |ahead: ReadAhead| {
        pool.install(|| Loader::new(data.clone(), stream(&*data, 4), ahead).threads.len())
    };
    assert_eq!(threads(ReadAhead::default()), 3);
    assert_eq!(threads(ReadAhead { threads: 0, batches: 1 }), 3);
    assert_eq!(threads(ReadAhead { threads: 2, batches: 1 }), 2);
}

#[test]
fn nothing_is_decoded_beyond_the_read_ahead_and_a_loader_can_be_dropped_early() {
    let data = Slow::new(40);
    let ahead = ReadAhead { threads: 4, batches: 2 };
    let mut loader = Loader::new(data.clone(), stream(&*data, 4), ahead);
    loader.next().unwrap().unwrap();
    // One batch is out, two may be ahead: the threads come so far, however slow the machine, and no further.
    while data.started.load(Ordering::SeqCst) < 12 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(50));
    assert_eq!(data.started.load(Ordering::SeqCst), 12);
    drop(loader);
    assert_eq!(Arc::strong_count(&data), 1);
}
