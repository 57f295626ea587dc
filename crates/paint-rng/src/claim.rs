//! A folder that one run at a time works in.
//!
//! Two runs in one folder would take each other's half-written files for leftovers. The folder itself is locked, so nothing is
//! left behind. Where folders cannot be locked (not every system and file system can) a claim is granted to everyone.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a claim waits: a process that was killed gives its files back last.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// A folder that is held until this is dropped.
#[derive(Debug)]
#[must_use = "the folder is free as soon as this is dropped"]
pub struct Claim(#[expect(dead_code, reason = "the lock goes with the handle")] Option<File>);

/// Holds a folder that is there; `None` if another run works in it.
pub fn claim(folder: &Path) -> Option<Claim> {
    let Ok(handle) = File::open(folder) else { return Some(Claim(None)) };
    let begun = Instant::now();
    while let Err(TryLockError::WouldBlock) = handle.try_lock() {
        if begun.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    Some(Claim(Some(handle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_one_run_and_free_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = claim(folder.path());
        assert!(first.is_some() && claim(folder.path()).is_none());
        drop(first);
        assert!(claim(folder.path()).is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_ends_soon_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let first = claim(folder.path());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| claim(folder.path()));
            std::thread::sleep(2 * PAUSE);
            drop(first);
            assert!(second.join().unwrap().is_some());
        });
    }
}
