//! JPEGs of every kind against libjpeg-turbo's pixels, to the bit, and damaged ones (`fixtures/make_jpegs.py` wrote
//! them all).

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::path::{Path, PathBuf};

use paint_data::Image;
use paint_rng::Seed;

/// Damaged files that libjpeg reads over.
const DAMAGED: &str = "damaged_";
/// Files of kinds that are not read.
const REFUSED: &str = "refused_";

/// The files that our decoder reads, damaged ones included, or those that it refuses.
fn files(refused: bool) -> Vec<PathBuf> {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "fixtures", "jpeg"].iter().collect();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jpg"))
        .filter(|path| name(path).starts_with(REFUSED) == refused)
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
    assert_eq!(files.len(), 38 + 13);
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
fn damage_is_read_over_and_refused_by_those_who_want_none() {
    for path in files(false) {
        let intact = Image::open_intact(&path);
        if !name(&path).starts_with(DAMAGED) {
            assert_eq!(intact.unwrap(), Image::open(&path).unwrap(), "{}", name(&path));
            continue;
        }
        let error = intact.unwrap_err();
        assert!(error.is_damaged_image() && error.to_string().contains(name(&path)), "{error}");
    }
    for path in files(true) {
        assert!(Image::open(&path).unwrap_err().is_damaged_image(), "{}", name(&path));
    }
    let absent = Image::open(Path::new("no/such/file.jpg")).unwrap_err();
    assert!(!absent.is_damaged_image(), "{absent}");
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
        assert!(refused > 0 && (decoded > 0 || name(&path).starts_with(REFUSED)), "{path:?}");
    }
}

/// A grey image of zeros: `data` bytes of one scan over the constant coefficients, in which a block takes one bit, or
/// over a band of the others, in which it takes a part of one.
fn flat(frame: u8, [width, height]: [u16; 2], band: [u8; 2], data: usize) -> Vec<u8> {
    let ([w1, w0], [h1, h0]) = (width.to_be_bytes(), height.to_be_bytes());
    let mut file = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    file.extend([1; 64]);
    file.extend([0xff, frame, 0, 11, 8, h1, h0, w1, w0, 1, 1, 0x11, 0]);
    // One code of one bit. Constant: no difference. Band: in the next 2^14 blocks and as many as 14 bits say there is
    // nothing.
    for (class, symbol) in [(0, 0), (0x10, if frame == 0xc2 { 0xe0 } else { 0 })] {
        file.extend([0xff, 0xc4, 0, 20, class, 1]);
        file.extend([0; 15]);
        file.push(symbol);
    }
    file.extend([0xff, 0xda, 0, 8, 1, 1, 0, band[0], band[1], 0]);
    file.resize(file.len() + data, 0);
    file.extend([0xff, 0xd9]);
    file
}

#[test]
fn a_frame_is_as_large_as_its_bits_can_hold_and_no_larger() {
    let decode = |bytes: &[u8]| {
        Image::decode(bytes, Path::new("page.jpg")).map_err(|error| error.to_string())
    };
    // 64 x 128 blocks: a bit each in a progressive file, two in a sequential one.
    for (frame, band, bytes) in [(0xc2, [0, 0], 1024), (0xc0, [0, 63], 2048)] {
        let page = decode(&flat(frame, [512, 1024], band, bytes)).unwrap();
        assert!(page.pixels().iter().all(|&value| value == 128));
        // Twice as high, within the limit on pixels.
        let error = decode(&flat(frame, [512, 2048], band, bytes)).unwrap_err();
        let found = format!("16384 blocks in the frame header and {} bytes after it", bytes + 56);
        assert!(error.contains(&found) && error.ends_with("page.jpg"), "{error}");
    }
}

#[test]
fn scans_that_pass_over_a_large_image_for_nothing_are_refused_with_the_limit() {
    // A grey page of 4096 x 4096: a bit for each block, then scans of a few bytes that refine nothing in any of them.
    let page = flat(0xc2, [4096, 4096], [0, 0], 1 << 15);
    let refine = [0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0x10];
    let with_scans = |count: usize| {
        let mut bytes = page[..page.len() - 2].to_vec();
        for _ in 0..count {
            bytes.extend(refine);
            // Each code says that 2^14 + 0 blocks have nothing new; sixteen of them are the page.
            bytes.extend([0; 30]);
        }
        bytes.extend([0xff, 0xd9]);
        Image::decode(&bytes, Path::new("page.jpg")).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with_scans(6), Ok(()));
    let error = with_scans(80).unwrap_err();
    assert!(error.contains("more than the") && error.contains("allowed for"), "{error}");
}

/// The shortest lossless WebP of this size: every pixel is the same, so none takes a bit.
fn flat_webp(side: u32) -> Vec<u8> {
    let header = (side - 1) | (side - 1) << 14;
    // No transform, no cache, no other codes; then five codes of one symbol each: 0.
    let codes = 0b0001_0001_0001_0001_0001_u32 << 3;
    let body = [&[0x2f], &header.to_le_bytes()[..], &codes.to_le_bytes(), &[0; 5]].concat();
    let chunk = [b"VP8L", &(body.len() as u32).to_le_bytes()[..], &body].concat();
    [b"RIFF", &(chunk.len() as u32 + 4).to_le_bytes()[..], b"WEBP", &chunk].concat()
}

#[test]
fn a_few_bytes_do_not_become_an_image_of_hundreds_of_megabytes() {
    let decode = |side| Image::decode(&flat_webp(side), Path::new("flat.webp"));
    let image = decode(2048).unwrap();
    assert!(image.pixels().iter().all(|&value| value == 0));
    let error = decode(8192).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("pixels, the limit for 34 bytes"), "{error}");
}
