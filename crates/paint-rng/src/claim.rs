//! A folder that one run at a time works in.
//!
//! Two runs in one folder would take each other's half-written files for leftovers. The folder itself is locked, so nothing is
//! left behind, and a killed process holds nothing. Where folders cannot be locked (not every system and file system can)
//! a claim is granted to everyone.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

/// A folder that is held until this is dropped.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "the lock goes with the handle")] Option<File>);

/// Makes a folder, if it is not there, and holds it.
pub fn claim(folder: &Path) -> io::Result<Claim> {
    fs::create_dir_all(folder)?;
    let Ok(handle) = File::open(folder) else { return Ok(Claim(None)) };
    match handle.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(ErrorKind::ResourceBusy, "another run works in this folder"))
        }
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Claim(Some(handle))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_one_run_and_free_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        let first = claim(&folder).unwrap();
        let message = claim(&folder).unwrap_err().to_string();
        assert!(message.contains("another run"), "{message}");
        assert!(claim(folder.parent().unwrap()).is_ok());
        drop(first);
        drop(claim(&folder).unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
