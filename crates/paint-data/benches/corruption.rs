//! Images per second and core of every corruption: severity 5, 224x224, ImageNet's table, one thread.
//!
//! `cargo bench -p paint-data --bench corruption -- [rounds] [image.rgb]` prints the median and the best over rounds. The optional file has 224x224x3 bytes; without it a synthetic picture is used.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use paint_data::Image;
use paint_data::corruption::{CORRUPTIONS, Corruption, Table};
use paint_rng::Seed;

const SIDE: usize = 224;
/// The shortest time worth a reading of the clock.
const ROUND: Duration = Duration::from_millis(5);

fn main() {
    // Cargo passes `--bench`; whatever else is not a flag is ours.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let rounds =
        arguments.next().map_or(25, |rounds| rounds.parse().expect("the number of rounds"));
    let pixels = arguments
        .next()
        .map_or_else(synthetic, |path| std::fs::read(path).expect("a readable image file"));
    let image = Image::new(SIDE, SIDE, pixels).expect("224x224x3 bytes");
    for corruption in CORRUPTIONS {
        let mut times: Vec<f64> = (0..rounds).map(|_| milliseconds(corruption, &image)).collect();
        times.sort_unstable_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!(
            "{:<18} {median:>8.4} ms {:>9.0} images/s  best {:>8.4} ms",
            corruption.name,
            1000.0 / median,
            times[0]
        );
    }
}

/// The mean time of one image over a round.
fn milliseconds(corruption: &Corruption, image: &Image) -> f64 {
    let mut images = 0;
    let start = Instant::now();
    while start.elapsed() < ROUND {
        let mut rng = corruption.stream(Seed(0), 5, images);
        let out = corruption.apply(black_box(image), 5, Table::ImageNet, &mut rng);
        black_box(out.expect("severity 5 exists"));
        images += 1;
    }
    start.elapsed().as_secs_f64() * 1e3 / images as f64
}

fn synthetic() -> Vec<u8> {
    (0..SIDE * SIDE * 3).map(|i| (i / 3 % SIDE / 2 + i / SIDE / 6 + i * 7919 % 61) as u8).collect()
}
