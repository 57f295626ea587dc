//! Good files of every format, cut and flipped.

use std::path::PathBuf;

use paint_nn::checkpoint::Checkpoint;
use paint_rng::Seed;

use super::decode;

/// Small files of every format; the flag says whether a checksum covers the content.
const FILES: [(&str, bool); 10] = [
    ("tensors.safetensors", false),
    ("torch_zip.pth", true),
    ("torch_protocol4.pth", true),
    ("torch_deflated.pth", true),
    ("torch_zip64.pth", true),
    ("torch_legacy.th", false),
    ("numpy.npz", true),
    ("numpy_compressed.npz", true),
    ("array.npy", false),
    ("../onnx/numbers.onnx", false),
];

fn bytes_of(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/checkpoints");
    std::fs::read(folder.join(name)).expect(name)
}

fn arrays_equal(a: &Checkpoint, b: &Checkpoint) -> bool {
    a.len() == b.len() && a.iter().all(|(name, array)| b.get(name) == Some(array))
}

#[test]
fn a_file_cut_at_any_length_is_refused() {
    for (name, _) in FILES {
        let bytes = bytes_of(name);
        for length in 0..bytes.len() {
            let error = decode(&bytes[..length]).expect_err(name).to_string();
            assert!(error.ends_with("some/file.pth"), "{name} cut to {length}: {error}");
        }
    }
}

#[test]
fn a_flipped_bit_does_no_harm_and_never_passes_a_checksum() {
    for (name, checked) in FILES {
        let original = bytes_of(name);
        let expected = decode(&original).unwrap();
        let mut rng = Seed(11).derive(name, &[]);
        for _ in 0..4000 {
            let mut bytes = original.clone();
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
            if let Ok(found) = decode(&bytes)
                && checked
            {
                assert!(
                    arrays_equal(&found, &expected),
                    "{name}: byte {at} changed an array unnoticed"
                );
            }
        }
    }
}

#[test]
fn many_random_bytes_at_once_do_no_harm() {
    for (name, _) in FILES {
        let original = bytes_of(name);
        let mut rng = Seed(12).derive(name, &[]);
        for _ in 0..1500 {
            let mut bytes = original.clone();
            for _ in 0..=rng.below(16) {
                let at = rng.below(bytes.len());
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, rng.next_u64() as u8][rng.below(6)];
            }
            let _ = decode(&bytes);
        }
    }
}
