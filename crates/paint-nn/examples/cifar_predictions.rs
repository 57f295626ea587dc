//! A backbone's predictions for CIFAR-10's test file, for `bench/cifar_predictions.py`; or its speed.
//!
//! `cifar_predictions predict BACKBONE WEIGHTS MEAN STD test_batch.bin COUNT > ours.csv`
//! `cifar_predictions time BACKBONE BATCH ROUNDS`, or `awake` in place of `time`
//!
//! `MEAN` and `STD` are three numbers each, with commas. Times are medians in milliseconds, by the clock and of the
//! CPU (which a busy machine disturbs less): forward with running statistics, and forward and backward with
//! those of the batch. With `awake` the threads stay awake meanwhile, as they do in a session.

use std::error::Error;
use std::time::Instant;

use paint_nn::backbone::{self, BnMode, BuildOptions, Request, Weights};
use paint_nn::checkpoint::{self, CropMode, Interpolation, Preprocess};
use paint_nn::loss::mean_entropy;
use paint_nn::params::Trainable;
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};

/// One byte of label and three planes of 32x32.
const RECORD: usize = 1 + 3 * 32 * 32;
const BATCH: usize = 100;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["predict", name, weights, mean, std, images, count] => {
            predict(name, weights, [mean, std], &std::fs::read(images)?, count.parse()?)
        }
        [how @ ("time" | "awake"), name, batch, rounds] => {
            time(name, batch.parse()?, rounds.parse()?, how == "awake")
        }
        _ => Err(
            "usage: predict BACKBONE WEIGHTS MEAN STD IMAGES COUNT | (time | awake) BACKBONE BATCH ROUNDS"
                .into(),
        ),
    }
}

fn channels(text: &str) -> Result<[f32; 3], Box<dyn Error>> {
    let values: Vec<f32> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    values.try_into().map_err(|_| "expected three numbers".into())
}

#[expect(clippy::print_stdout, reason = "the predictions are the output")]
fn predict(
    name: &str,
    weights: &str,
    statistics: [&str; 2],
    records: &[u8],
    count: usize,
) -> Outcome {
    let device = Device::cpu();
    let (_, weights) = checkpoint::to_timm(checkpoint::read(weights)?)?;
    let preprocess = Preprocess {
        mean: channels(statistics[0])?,
        std: channels(statistics[1])?,
        input_size: [32, 32],
        crop_pct: 1.0,
        crop_mode: CropMode::Center,
        interpolation: Interpolation::Bicubic,
    };
    let options = BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(&device) };
    let model = backbone::find(name)?.build(Weights::Checkpoint(weights), &options)?;
    println!("index,class");
    let records: Vec<&[u8]> = records.chunks_exact(RECORD).take(count).collect();
    for (batch, records) in records.chunks(BATCH).enumerate() {
        let pixels = records.iter().flat_map(|record| &record[1..]);
        let data = pixels.map(|&pixel| f32::from(pixel) / 255.0).collect();
        let images = Tensor::from_vec(data, [records.len(), 3, 32, 32], &device)?;
        let classes = model.forward(&images, &Request::default())?.logits.argmax()?;
        for (i, class) in classes.into_iter().enumerate() {
            println!("{},{class}", batch * BATCH + i);
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the times are the output")]
fn time(name: &str, batch: usize, rounds: usize, is_awake: bool) -> Outcome {
    let device = Device::cpu();
    let options = BuildOptions::new(&device);
    let mut model = backbone::find(name)?.build(Weights::Random(Seed(0)), &options)?;
    let [height, width] = model.spec().image_size;
    let mut rng = Seed(1).derive("images", &[]);
    let data = (0..batch * 3 * height * width).map(|_| rng.uniform() as f32).collect();
    let images = Tensor::from_vec(data, [batch, 3, height, width], &Device::cpu())?;
    for (what, choice) in [
        ("forward", Trainable::Any(vec![])),
        ("forward and backward into norms", Trainable::NormAffine),
        ("forward and backward into all", Trainable::All),
    ] {
        model.params_mut().track(&choice);
        let adapts = choice != Trainable::Any(vec![]);
        model.set_batch_norm(if adapts { BnMode::Batch } else { BnMode::Running });
        let mut times = Vec::new();
        for _ in 0..=rounds {
            let start = (Instant::now(), cpu_ms());
            let pass = || -> paint_nn::Result<()> {
                let logits = model.forward(&images, &Request::default())?.logits;
                if adapts {
                    drop(mean_entropy(&logits)?.backward()?);
                }
                Ok(())
            };
            if is_awake { device.run(pass) } else { pass() }?;
            times.push((start.0.elapsed().as_secs_f64() * 1e3, cpu_ms() - start.1));
        }
        let median = |of: fn(&(f64, f64)) -> f64| {
            let mut times: Vec<f64> = times[1..].iter().map(of).collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (clock, cpu) = (median(|time| time.0), median(|time| time.1));
        println!("{name} x{batch}, {what}: {clock:.1} ms, CPU {cpu:.1} ms");
    }
    Ok(())
}

/// The CPU time of all threads so far, where the system reports it (Linux).
fn cpu_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let spent = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    spent.sum::<f64>() / 1e6
}
