//! A folder that one process at a time works in.
//!
//! Two runs in one folder would take each other's half-written files for leftovers. The folder itself is locked where the
//! system allows it, so nothing is left behind. Windows locks no folders and NFS only files that are open for writing;
//! there an empty file [`LOCK_FILE`] in the folder is locked instead, and stays. Where neither can be locked, the claim is
//! refused: nothing would keep a second process out.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a claim waits: a killed process releases its locks last.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
const LOCK_FILE: &str = ".lock";

/// A folder that is held until this is dropped.
#[derive(Debug)]
#[must_use = "the folder is released as soon as this is dropped"]
pub struct Claim(#[expect(dead_code, reason = "dropping the handle releases the lock")] File);

/// Why a folder was not granted.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process holds it.
    #[error("another run works in {}: wait until it has ended, or choose another folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The file system has no locks, or they are switched off.
    #[error(
        "cannot lock {} ({source}): two runs could overwrite each other's files there; choose a folder on a local disk, \
         or on a file system that is mounted with locks",
        path.display()
    )]
    CannotLock {
        /// What the system answered.
        source: io::Error,
        /// The folder.
        path: PathBuf,
    },
}

/// Claims an existing folder for this process, waiting up to three seconds for another one to release it.
pub fn claim(folder: &Path) -> Result<Claim, ClaimError> {
    claim_with(folder, File::try_lock)
}

fn claim_with(
    folder: &Path,
    try_lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<Claim, ClaimError> {
    let begun = Instant::now();
    loop {
        let attempt = match File::open(folder).map_err(TryLockError::Error).and_then(|handle| {
            try_lock(&handle)?;
            Ok(handle)
        }) {
            Err(TryLockError::Error(_)) => lock_file(folder, &try_lock),
            attempt => attempt,
        };
        let path = || folder.to_owned();
        match attempt {
            Ok(handle) => return Ok(Claim(handle)),
            Err(TryLockError::Error(source)) => {
                return Err(ClaimError::CannotLock { source, path: path() });
            }
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                return Err(ClaimError::Busy { path: path() });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

fn lock_file(
    folder: &Path,
    try_lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<File, TryLockError> {
    let path = folder.join(LOCK_FILE);
    let handle = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let handle = handle.map_err(TryLockError::Error)?;
    try_lock(&handle)?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_folder_is_held_by_one_run_and_free_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = claim(folder.path()).unwrap();
        assert!(matches!(claim(folder.path()), Err(ClaimError::Busy { .. })));
        drop(first);
        assert!(claim(folder.path()).is_ok());
        #[cfg(unix)]
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
            assert!(second.join().unwrap().is_ok());
        });
    }

    #[test]
    fn a_file_system_without_locks_is_refused_by_the_name_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let unsupported = |_: &File| Err(TryLockError::Error(ErrorKind::Unsupported.into()));
        let error = claim_with(folder.path(), unsupported).unwrap_err();
        assert!(matches!(error, ClaimError::CannotLock { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(folder.path().to_str().unwrap()), "{message}");
        assert!(message.contains("choose a folder on a local disk"), "{message}");

        let absent = claim(&folder.path().join("absent")).unwrap_err();
        assert!(matches!(absent, ClaimError::CannotLock { .. }), "{absent}");
    }

    #[test]
    fn where_folders_cannot_be_locked_a_file_in_them_is() {
        let folder = tempfile::tempdir().unwrap();
        // As NFS does: a lock needs a handle that is open for writing.
        let files_only = |handle: &File| match handle.metadata() {
            Ok(about) if about.is_dir() => Err(TryLockError::Error(ErrorKind::Unsupported.into())),
            _ => handle.try_lock(),
        };
        let first = claim_with(folder.path(), files_only).unwrap();
        assert!(folder.path().join(LOCK_FILE).is_file());
        let second = claim_with(folder.path(), files_only);
        assert!(matches!(second, Err(ClaimError::Busy { .. })));
        drop(first);
        assert!(claim_with(folder.path(), files_only).is_ok());
    }
}
