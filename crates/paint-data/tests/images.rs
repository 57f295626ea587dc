//! Decoding and resizing against Pillow's pixels, and files that lie (`fixtures/make_images.py` wrote them all).

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::path::PathBuf;

use paint_data::{
    Image,
    dataset::{self, Options},
    image::Filter,
};
use paint_rng::Seed;

fn fixtures() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "fixtures", "images"].iter().collect()
}

/// The images of an array.
fn array(name: &str) -> Vec<Image> {
    let data =
        (dataset::entry("npy").unwrap().open)(&fixtures().join(name), &Options::default()).unwrap();
    (0..data.len(0)).map(|index| data.sample(0, index).unwrap().image).collect()
}

fn decoded_names() -> Vec<String> {
    std::fs::read_to_string(fixtures().join("decoded.txt"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

const HOSTILE: [&str; 10] = [
    "huge_side.jpg",
    "huge_area.jpg",
    "unlikely.jpg",
    "huge_side.png",
    "unlikely.png",
    "huge.webp",
    "unlikely.bmp",
    "animation.gif",
    "text.png",
    "empty.jpg",
];

#[test]
fn every_encoding_decodes_to_pillows_pixels() {
    let names = decoded_names();
    let expected = array("decoded.npy");
    assert_eq!(names.len(), expected.len());
    for (name, expected) in names.iter().zip(expected) {
        let image = Image::open(&fixtures().join(name)).unwrap();
        assert_eq!((image.width(), image.height()), (61, 45), "{name}");
        let differences = image.pixels().iter().zip(expected.pixels()).map(|(a, b)| a.abs_diff(*b));
        assert_eq!(differences.max(), Some(0), "{name}");
    }
}

#[test]
fn resizing_equals_pillow_to_the_bit() {
    let image = Image::open(&fixtures().join("rgb.png")).unwrap();
    for (name, filter) in [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic)] {
        for (width, height) in [(24, 17), (97, 33), (20, 60), (61, 9), (7, 45), (1, 1), (80, 70)] {
            let expected = array(&format!("resized_{name}_{width}x{height}.npy"));
            assert_eq!(
                image.resize(width, height, filter).unwrap(),
                expected[0],
                "{name} {width}x{height}"
            );
        }
    }
}

#[test]
fn hostile_files_are_refused_with_their_name() {
    for name in HOSTILE {
        let error = Image::open(&fixtures().join(name)).unwrap_err().to_string();
        assert!(error.ends_with(name), "{error}");
    }
    for (name, reason) in [
        ("huge_side.jpg", "sides from 1"),
        ("unlikely.jpg", "the limit for"),
        ("animation.gif", "found a GIF image"),
    ] {
        let error = Image::open(&fixtures().join(name)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_file_cut_to_a_third_is_refused() {
    for name in decoded_names() {
        let bytes = std::fs::read(fixtures().join(&name)).unwrap();
        assert!(Image::decode(&bytes[..bytes.len() / 3], name.as_ref()).is_err(), "{name}");
    }
}

#[test]
fn no_damage_makes_a_decoder_panic() {
    for (file, name) in decoded_names().iter().map(String::as_str).chain(HOSTILE).enumerate() {
        let whole = std::fs::read(fixtures().join(name)).unwrap();
        let mut rng = Seed(5).derive("damage", &[file as u64]);
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..=rng.below(4) {
                if !bytes.is_empty() {
                    // Headers are where the lies are.
                    let at = if rng.below(2) == 0 {
                        rng.below(bytes.len())
                    } else {
                        rng.below(bytes.len().min(64))
                    };
                    bytes[at] = rng.next_u64() as u8;
                }
            }
            bytes.truncate(rng.below(bytes.len() + 1).max(rng.below(bytes.len() + 1)));
            // Refused or decoded, either is right.
            let _ = Image::decode(&bytes, name.as_ref());
        }
    }
}
