//! The fingerprint by which a result names the weights it was made with.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::error::{Error, Result};
use super::located::{files_of, locate};

/// The SHA-256 of a file in hexadecimal, as `sha256sum` prints it. Of an index, or of a graph with arrays in files
/// beside it, that of the file and of every file that it names, one after the other; of a folder, that of the
/// weights in it.
pub fn sha256(path: impl AsRef<Path>) -> Result<String> {
    let mut hasher = Sha256::new();
    for file in files_of(&locate(path)?)? {
        feed(&mut hasher, &file)?;
    }
    Ok(hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

fn feed(hasher: &mut Sha256, path: &Path) -> Result<()> {
    super::check_regular(path)?;
    let fail = |source| Error::Io { action: "read", source, path: path.to_owned() };
    let mut file = File::open(path).map_err(fail)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(fail)? {
            0 => return Ok(()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
