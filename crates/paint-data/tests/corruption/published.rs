//! The whole comparison with the published generators' outputs, for who has them (`fixtures/corruptions/unpack.py`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use paint_data::Image;
use paint_data::corruption::{CORRUPTIONS, Corruption, Table};
use paint_rng::Seed;

use super::statistics::{LAPLACIAN, NAMES, statistics};
use super::{SEVERITIES, corrupted, differences, npy};

const SETS: [(&str, Table, &[u8]); 2] =
    [("cifar", Table::Cifar, &[1, 2, 3, 4, 5]), ("imagenet", Table::ImageNet, &SEVERITIES)];

fn folder() -> PathBuf {
    std::env::var_os("PAINT_CORRUPTION_REFERENCE").map(PathBuf::from).expect(
        "PAINT_CORRUPTION_REFERENCE names the folder made by fixtures/corruptions/unpack.py",
    )
}

#[test]
#[ignore = "needs the published outputs"]
fn deterministic_corruptions_equal_the_published_outputs() {
    let folder = folder();
    let mut report = String::from(
        "set corruption severity: mean difference, 99th percentile, share that differs\n",
    );
    let mut wrong = 0;
    for (set, table, severities) in SETS {
        let clean = npy::images(&folder.join(set).join("clean.npy"));
        for corruption in CORRUPTIONS.iter().filter(|corruption| !corruption.random) {
            let expected = npy::images(&folder.join(set).join(format!("{}.npy", corruption.name)));
            for (&severity, expected) in severities.iter().zip(expected.chunks_exact(clean.len())) {
                let found: Vec<Image> = clean
                    .iter()
                    .map(|image| corrupted(corruption, image, severity, table, 0))
                    .collect();
                let flat = |images: &[Image]| {
                    images.iter().flat_map(|i| i.pixels().to_vec()).collect::<Vec<_>>()
                };
                let (found, expected) = (flat(&found), flat(expected));
                let (mean, p99, count) =
                    differences(found.iter().copied(), expected.iter().copied());
                let share = count as f64 / found.len() as f64;
                writeln!(
                    report,
                    "{set} {} {severity}: {mean:.5} {p99} {share:.5}",
                    corruption.name
                )
                .unwrap();
                wrong += usize::from(mean > 1.0 || p99 > 3);
            }
        }
    }
    eprintln!("{report}");
    assert_eq!(wrong, 0);
}

/// The rows of a statistics file: set, corruption, severity, ten numbers.
fn rows(path: &Path) -> Vec<(String, String, u8, Vec<f64>)> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let numbers = fields[3..].iter().map(|field| field.parse().unwrap()).collect();
            (
                fields[0].replace("cifar10", "cifar"),
                fields[1].to_owned(),
                fields[2].parse().unwrap(),
                numbers,
            )
        })
        .collect()
}

fn found(
    corruption: &Corruption,
    clean: &[Image],
    severity: u8,
    table: Table,
    seed: u64,
) -> [f64; 10] {
    let out: Vec<Image> = (0..)
        .zip(clean)
        .map(|(i, image)| {
            corruption
                .apply(image, severity, table, &mut corruption.stream(Seed(seed), severity, i))
                .unwrap()
        })
        .collect();
    statistics(clean, &out)
}

/// A number may differ by the larger of the published seeds' difference and three standard deviations over our seeds,
/// plus a share: 0.5 % for what hardly varies, or the share by which the clean images themselves differ from the
/// published ones (the ImageNet crops at hand are JPEG copies, 3 % sharper by their Laplacian).
#[test]
#[ignore = "needs the published outputs"]
fn random_corruptions_have_the_published_statistics() {
    const SEEDS: u64 = 16;
    let folder = folder();
    let sets = SETS
        .map(|(set, table, _)| (set, table, npy::images(&folder.join(set).join("statistics.npy"))));
    let published = rows(&folder.join("stats.csv"));
    let other_seed = rows(&folder.join("stats_seed1.csv"));
    let mut report =
        String::from("set corruption severity: per number ours (two published seeds; tolerance)\n");
    let mut wrong = String::new();
    for ((set, name, severity, first), (.., second)) in published.iter().zip(&other_seed) {
        let Some(corruption) = CORRUPTIONS.iter().find(|c| c.name == *name && c.random) else {
            continue;
        };
        let (_, table, clean) = sets.iter().find(|(known, ..)| known == set).unwrap();
        let ours: Vec<[f64; 10]> =
            (0..SEEDS).map(|seed| found(corruption, clean, *severity, *table, seed)).collect();
        let published_clean =
            &published.iter().find(|(known, name, ..)| known == set && name == "clean").unwrap().3;
        let clean_now = statistics(clean, clean);
        let gap = |i: usize| (clean_now[i] / published_clean[i] - 1.0).abs();
        write!(report, "{set} {name} {severity}:").unwrap();
        for i in 0..NAMES.len() {
            let mean = ours.iter().map(|run| run[i]).sum::<f64>() / SEEDS as f64;
            let sd = (ours.iter().map(|run| (run[i] - mean).powi(2)).sum::<f64>()
                / (SEEDS - 1) as f64)
                .sqrt();
            let expected = f64::midpoint(first[i], second[i]);
            // A difference from the clean image is as sharp as the image.
            let share =
                gap(if matches!(NAMES[i], "mean_abs_diff" | "psnr_db") { LAPLACIAN } else { i })
                    .max(0.005);
            let tolerance = (first[i] - second[i]).abs().max(3.0 * sd) + share * expected.abs();
            write!(
                report,
                "  {} {mean:.3} ({:.3} {:.3}; {tolerance:.3})",
                NAMES[i], first[i], second[i]
            )
            .unwrap();
            if (mean - expected).abs() > tolerance {
                writeln!(wrong, "{set} {name} {severity} {}: {mean:.3}, expected {expected:.3} ± {tolerance:.3}", NAMES[i])
                    .unwrap();
            }
        }
        report.push('\n');
    }
    eprintln!("{report}");
    assert!(wrong.is_empty(), "{wrong}");
}
