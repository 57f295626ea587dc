//! Images that wait to be learnt from, while their stream is on the disk: raw numbers beside its state.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// Writes images in [0, 1], flat.
pub(crate) fn write(path: &Path, pixels: &[f32]) -> io::Result<()> {
    paint_files::write_atomically(path, |file| {
        pixels.iter().try_for_each(|pixel| file.write_all(&pixel.to_le_bytes()))
    })
}

/// Takes images of so many numbers each from a file, which is gone then; none if there is none, or something else.
pub(crate) fn take(path: &Path, image_len: usize) -> io::Result<Option<Vec<f32>>> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    std::fs::remove_file(path)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    let pixels: Vec<f32> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
    let is_whole = rest.is_empty() && !pixels.is_empty() && pixels.len().is_multiple_of(image_len);
    let is_sound = is_whole && pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel));
    Ok(is_sound.then_some(pixels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_back_once_and_others_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pending");
        assert_eq!(take(&path, 2).unwrap(), None);
        write(&path, &[0.0, 0.25, 1.0, 0.5]).unwrap();
        assert_eq!(take(&path, 2).unwrap(), Some(vec![0.0, 0.25, 1.0, 0.5]));
        assert!(!path.exists());
        for bad in [&[0.5; 3][..], &[2.0, 0.5], &[f32::NAN, 0.5], &[]] {
            write(&path, bad).unwrap();
            assert_eq!(take(&path, 2).unwrap(), None, "{bad:?}");
        }
        std::fs::write(&path, [0; 7]).unwrap();
        assert_eq!(take(&path, 1).unwrap(), None);
    }
}
