//! A folder that one process at a time works in, or a file that one process at a time writes.
//!
//! Two runs in one folder would take each other's half-written files for leftovers. The folder itself is locked where
//! the system allows it, so nothing is left behind. Windows locks no folders and NFS only files that are open for
//! writing; there an empty file [`LOCK_FILE`] in the folder is locked instead, and stays. Where neither can be
//! locked, the claim is refused: nothing would keep a second process out.
//!
//! A file cannot be locked itself, because each writing puts a new one in its place. A hidden file beside it is
//! locked, and removed when the claim ends; one that a killed process left is in nobody's way.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::whole::{file_name, folder_of, followed};

/// How long a claim waits: a killed process releases its locks last.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
const LOCK_FILE: &str = ".lock";

/// A folder that is held until this is dropped.
#[derive(Debug)]
#[must_use = "the folder is released as soon as this is dropped"]
pub struct Claim(#[expect(dead_code, reason = "dropping the handle releases the lock")] File);

/// A file that is held until this is dropped.
#[derive(Debug)]
#[must_use = "the file is released as soon as this is dropped"]
pub struct FileClaim {
    lock: PathBuf,
    #[expect(dead_code, reason = "dropping the handle releases the lock")]
    handle: File,
}

impl Drop for FileClaim {
    fn drop(&mut self) {
        // Removed while it is still locked: whoever opened it meanwhile finds that it is no longer there and opens
        // another. Where that cannot be found out it stays.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// Why a folder or a file was not granted.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process holds it.
    #[error("another run works in {}: wait until it has ended, or choose another folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Another process holds the file.
    #[error("another process writes {}: wait until it has ended, or choose another file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// No file can be written there.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable {
        /// What the system answered.
        source: io::Error,
        /// The file.
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

/// Claims a file, whether or not it is there yet, waiting up to three seconds for another process to release it. A
/// place where nothing can be written is refused.
pub fn claim_file(path: &Path) -> Result<FileClaim, ClaimError> {
    let unwritable = |source| ClaimError::Unwritable { source, path: path.to_owned() };
    let place = followed(path).map_err(unwritable)?;
    let name = file_name(&place).map_err(unwritable)?;
    if fs::metadata(&place).is_ok_and(|about| about.permissions().readonly()) {
        return Err(unwritable(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only")));
    }
    let lock = folder_of(&place).join(format!(".{name}{LOCK_FILE}"));
    let begun = Instant::now();
    loop {
        let handle = OpenOptions::new().write(true).create(true).truncate(false).open(&lock);
        let handle = handle.map_err(unwritable)?;
        match handle.try_lock() {
            Ok(()) if is_at(&handle, &lock) => return Ok(FileClaim { lock, handle }),
            // The process that held it has just removed it.
            Ok(()) => {}
            Err(TryLockError::Error(source)) => {
                return Err(ClaimError::CannotLock { source, path: folder_of(&place).to_owned() });
            }
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                return Err(ClaimError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

/// Whether an open file is still the one at a path.
#[cfg(unix)]
fn is_at(handle: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    let (open, there) = (handle.metadata().map(place), fs::metadata(path).map(place));
    matches!((open, there), (Ok(open), Ok(there)) if open == there)
}

/// Nobody removes the file here.
#[cfg(not(unix))]
fn is_at(_handle: &File, _path: &Path) -> bool {
    true
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

    #[test]
    fn of_many_who_claim_a_file_one_at_a_time_holds_it_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let first = claim_file(&path).unwrap();
        assert!(matches!(claim_file(&path), Err(ClaimError::InUse { .. })));
        let other = claim_file(&folder.path().join("other")).unwrap();
        drop((first, other));
        let holders = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let claim = claim_file(&path).unwrap();
                        assert_eq!(holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(claim);
                    }
                });
            }
        });
        #[cfg(unix)]
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        std::fs::write(&path, "kept").unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).unwrap();
        for path in [path, folder.path().join("no folder/state"), "/".into()] {
            let error = claim_file(&path).unwrap_err();
            assert!(matches!(error, ClaimError::Unwritable { .. }), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}
