//! JPEGs of every kind against libjpeg-turbo's pixels, to the bit, and damaged ones (`fixtures/make_jpegs.py` wrote them all).

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::path::{Path, PathBuf};

use paint_data::Image;
use paint_rng::Seed;

/// The files whose names begin with `refused_`, or the others.
fn files(refused: bool) -> Vec<PathBuf> {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "fixtures", "jpeg"].iter().collect();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jpg"))
        .filter(|path| name(path).starts_with("refused_") == refused)
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn every_kind_decodes_to_the_pixels_of_libjpeg_turbo() {
    let files = files(false);
    assert_eq!(files.len(), 38);
    for path in files {
        let image = Image::open(&path).unwrap();
        let expected = Image::open(&path.with_extension("png")).unwrap();
        let size = |image: &Image| (image.width(), image.height());
        assert_eq!(size(&image), size(&expected), "{}", name(&path));
        let differences = image.pixels().iter().zip(expected.pixels()).filter(|(a, b)| a != b);
        assert_eq!(differences.count(), 0, "{}", name(&path));
    }
}

#[test]
fn what_is_not_read_is_refused_with_the_reason() {
    let reasons = [
        ("refused_arithmetic.jpg", "arithmetic coding"),
        ("refused_fractional_sampling.jpg", "fractional ratio"),
        ("refused_lossless.jpg", "lossless"),
        ("refused_no_codes.jpg", "no Huffman table"),
        ("refused_no_end.jpg", "the end of the data"),
        ("refused_no_steps.jpg", "no quantisation table"),
        ("refused_scans_missing.jpg", "no scan for a component"),
        ("refused_too_many_scans.jpg", "more than 100 scans"),
        ("refused_twelve_bits.jpg", "other than 8 bits"),
        ("refused_two_components.jpg", "number of components"),
        ("refused_two_frames.jpg", "second frame"),
    ];
    let files = files(true);
    assert_eq!(files.len(), reasons.len());
    for (path, (expected_name, reason)) in files.iter().zip(reasons) {
        assert_eq!(name(path), expected_name);
        let error = Image::open(path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.ends_with(expected_name), "{error}");
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for path in files(false).iter().filter(|path| name(path) != "fill_and_junk.jpg") {
        let bytes = std::fs::read(path).unwrap();
        for length in 0..bytes.len() {
            assert!(Image::decode(&bytes[..length], path).is_err(), "{} {length}", name(path));
        }
    }
}

#[test]
fn no_flipped_bits_make_the_decoder_panic() {
    for (index, path) in files(false).into_iter().chain(files(true)).enumerate() {
        let whole = std::fs::read(&path).unwrap();
        let mut rng = Seed(6).derive("flips", &[index as u64]);
        let (mut refused, mut decoded) = (0, 0);
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=rng.below(3) {
                bytes[rng.below(whole.len())] ^= 1 << rng.below(8);
            }
            match Image::decode(&bytes, &path) {
                Ok(_) => decoded += 1,
                Err(_) => refused += 1,
            }
        }
        // Most flips of a whole file change pixels only; many break a code.
        assert!(refused > 0 && (decoded > 0 || name(&path).starts_with("refused_")), "{path:?}");
    }
}
