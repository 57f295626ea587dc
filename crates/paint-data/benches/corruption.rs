//! Images per second and core of every corruption: severity 5, 224x224, ImageNet's table, one thread.
//!
//! `cargo bench -p paint-data --bench corruption -- [ROUNDS [IMAGE [NAME..]]]` prints the median and the least time
//! of `ROUNDS` single images. `IMAGE` is a file of 224x224x3 bytes, or `-` for a synthetic picture; `NAME`s choose
//! corruptions.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::Instant;

use paint_data::Image;
use paint_data::corruption::{CORRUPTIONS, Corruption, Table};
use paint_rng::Seed;

const SIDE: usize = 224;

fn main() {
    // Cargo passes `--bench`; whatever else is not a flag is ours.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let rounds =
        arguments.next().map_or(200, |rounds| rounds.parse().expect("the number of rounds"));
    let pixels = match arguments.next().as_deref() {
        None | Some("-") => synthetic(),
        Some(path) => std::fs::read(path).expect("a readable image file"),
    };
    let image = Image::new(SIDE, SIDE, pixels).expect("224x224x3 bytes");
    let names: Vec<String> = arguments.collect();
    for corruption in
        CORRUPTIONS.iter().filter(|c| names.is_empty() || names.iter().any(|name| name == c.name))
    {
        milliseconds(corruption, &image, 0);
        let mut times: Vec<f64> =
            (0..rounds).map(|round| milliseconds(corruption, &image, round)).collect();
        times.sort_unstable_by(f64::total_cmp);
        let (median, least) = (times[times.len() / 2], times[0]);
        println!(
            "{:<18} {median:>8.4} ms {:>9.0} images/s  least {least:>8.4} ms",
            corruption.name,
            1e3 / median
        );
    }
}

fn milliseconds(corruption: &Corruption, image: &Image, index: u64) -> f64 {
    let start = Instant::now();
    let mut rng = corruption.stream(Seed(0), 5, index);
    let out = corruption.apply(black_box(image), 5, Table::ImageNet, &mut rng);
    black_box(out.expect("severity 5 exists"));
    start.elapsed().as_secs_f64() * 1e3
}

fn synthetic() -> Vec<u8> {
    (0..SIDE * SIDE * 3).map(|i| (i / 3 % SIDE / 2 + i / SIDE / 6 + i * 7919 % 61) as u8).collect()
}
