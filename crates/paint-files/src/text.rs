//! Text files that are read whole, up to a size.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest text that is read whole: far above any configuration, protocol or summary, far below a memory.
pub const LONGEST_TEXT: u64 = 64 << 20;

/// The text of a file. One that has no end (`/dev/zero`), or one above [`LONGEST_TEXT`], is an error and not a full
/// memory.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_at_most(path, LONGEST_TEXT)
}

fn read_at_most(path: &Path, longest: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(longest + 1).read_to_string(&mut text)?;
    if read as u64 > longest {
        let why = format!("expected a text of at most {longest} bytes, found more");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_at_most(&path, 4).unwrap(), "four");
        let error = read_at_most(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("at most 3 bytes"), "{error}");
        if cfg!(unix) {
            assert!(read_at_most(Path::new("/dev/zero"), 1000).is_err());
        }
    }
}
