//! The fingerprint by which a result names the weights it was made with.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::error::{Error, Result};

/// The SHA-256 of a file in hexadecimal, as `sha256sum` prints it.
pub fn sha256(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let fail = |source| Error::Io { action: "read", source, path: path.to_owned() };
    let mut file = File::open(path).map_err(fail)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(fail)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}
