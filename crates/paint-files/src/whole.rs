//! Files that are written completely or left as they were.
//!
//! 1. A temporary file beside the target is filled,
//! 2. flushed to the disk (a full disk is reported here at the latest) and
//! 3. renamed to the name of the target;
//! 4. the folder is flushed, so that the new name survives a power cut too.
//!
//! A process that is killed before step 3 leaves its temporary file behind, which [`remove_leftovers`] recognises by
//! its name.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, IntoInnerError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file whole or not at all; what is there before stays if anything fails. The new file has the mode of the
/// old one.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let path = &followed(path)?;
    let (temporary, file) = filled(path, write)?;
    file.sync_all()?;
    fs::rename(&temporary.0, path)?;
    flush_folder(folder_of(path))
}

/// The same without waiting for the disk (steps 2 and 4), for files by the million that can be made again: whole
/// after a kill or on a full disk, but not after a power cut.
pub fn write_unflushed(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, _) = filled(path, write)?;
    fs::rename(&temporary.0, path)
}

fn filled(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<(Temporary, File)> {
    let earlier = fs::metadata(path).ok().map(|about| about.permissions());
    let (temporary, file) = Temporary::beside(path, earlier.as_ref())?;
    if let Some(permissions) = earlier {
        // A file system without modes has none to keep.
        let _ = file.set_permissions(permissions);
    }
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    Ok((temporary, out.into_inner().map_err(IntoInnerError::into_error)?))
}

/// Creates a folder and its parents, unless they exist.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_file() {
        return Err(io::Error::new(ErrorKind::NotADirectory, "expected a folder, found a file"));
    }
    fs::create_dir_all(path)
}

/// The target of a link, whether or not it exists yet: the target is written, and the link stays.
pub(crate) fn followed(path: &Path) -> io::Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(folder_of(path).join(fs::read_link(path)?))
        }
        found => found,
    }
}

/// Removes the temporary files that killed processes left while writing `path`. No process may be writing it now.
pub fn remove_leftovers(path: &Path) -> io::Result<()> {
    let path = &followed(path)?;
    let name = file_name(path)?;
    for entry in fs::read_dir(folder_of(path))? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|found| is_temporary(found, &name)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

pub(crate) fn file_name(path: &Path) -> io::Result<String> {
    let name = path.file_name().ok_or(io::Error::new(ErrorKind::InvalidInput, "no file name"))?;
    Ok(name.to_string_lossy().into_owned())
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Some systems cannot open folders and some file systems cannot flush them; then there is nothing to wait for.
fn flush_folder(folder: &Path) -> io::Result<()> {
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// The name of a file being written. Dropping it removes the file, unless the file was renamed.
struct Temporary(PathBuf);

impl Temporary {
    /// A new file, readable for nobody whom `earlier` would keep out.
    fn beside(path: &Path, earlier: Option<&Permissions>) -> io::Result<(Self, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if let Some(earlier) = earlier {
            use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
            options.mode(earlier.mode());
        }
        #[cfg(not(unix))]
        let _ = earlier;
        let (folder, name) = (folder_of(path), file_name(path)?);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(temporary_name(&name, std::process::id(), count));
            match options.open(&path) {
                // Left by a killed process with the same id, as happens in containers.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => return Ok((Self(path), opened?)),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename no file has this name, and the error says so.
        let _ = fs::remove_file(&self.0);
    }
}

fn temporary_name(name: &str, process: u32, count: u64) -> String {
    format!(".{name}.{process}-{count}.tmp")
}

/// Whether `found` is a [`temporary_name`] of the file called `name`.
fn is_temporary(found: &str, name: &str) -> bool {
    let numbers = found.strip_prefix('.').and_then(|rest| rest.strip_prefix(name));
    let numbers = numbers.and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".tmp"));
    numbers.and_then(|numbers| numbers.split_once('-')).is_some_and(|(process, count)| {
        process.parse::<u32>().is_ok() && count.parse::<u64>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_that_fails_or_panics_leaves_the_file_as_it_was_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let more_than_a_buffer = vec![7; 1 << 20];
        let failed = write_atomically(&path, |out| {
            out.write_all(&more_than_a_buffer)?;
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        let panicked = std::panic::catch_unwind(|| {
            write_atomically(&path, |out| {
                out.write_all(&more_than_a_buffer)?;
                panic!("as a bug would")
            })
        });
        assert!(panicked.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["state"]);

        write_atomically(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let failed = write_unflushed(&path, |_| Err(ErrorKind::StorageFull.into()));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        write_unflushed(&path, |out| out.write_all(b"newer")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(names(folder.path()), ["state"]);
        assert!(write_atomically(Path::new("/"), |_| Ok(())).is_err());

        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write_atomically(&link, |out| out.write_all(b"through")).unwrap();
            assert!(link.is_symlink() && fs::read(&path).unwrap() == b"through");
            fs::remove_file(&path).unwrap();
            fs::write(folder.path().join(".state.7-0.tmp"), "half").unwrap();
            remove_leftovers(&link).unwrap();
            write_atomically(&link, |out| out.write_all(b"anew")).unwrap();
            assert!(link.is_symlink() && fs::read(&path).unwrap() == b"anew");
            assert_eq!(names(folder.path()), ["link", "state"]);
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_file_keeps_its_mode_and_is_never_readable_for_more() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        for kept in [0o600, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(kept)).unwrap();
            write_atomically(&path, |out| {
                let half = names(folder.path()).into_iter().find(|name| name.ends_with("tmp"));
                assert_eq!(mode(&folder.path().join(half.unwrap())), kept);
                out.write_all(b"new")
            })
            .unwrap();
            assert_eq!(mode(&path), kept);
        }
    }

    #[test]
    fn of_writers_of_one_file_at_once_one_wins_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contested");
        std::thread::scope(|scope| {
            for letter in b'a'..b'e' {
                let path = &path;
                scope.spawn(move || {
                    let content = vec![letter; 100_000];
                    for _ in 0..10 {
                        write_atomically(path, |out| out.write_all(&content)).unwrap();
                        let found = fs::read(path).unwrap();
                        assert_eq!(found.len(), content.len());
                        assert!(found.iter().all(|byte| *byte == found[0]), "a mixture");
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["contested"]);
    }

    #[test]
    fn leftovers_are_in_nobodys_way_and_told_from_files_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        // More than this process has written so far, under its own number.
        for count in 0..200 {
            let name = temporary_name("log.jsonl", std::process::id(), count);
            fs::write(folder.path().join(name), "half").unwrap();
        }
        write_atomically(&path, |out| out.write_all(b"whole")).unwrap();
        let others = [
            ".log.jsonl.7.tmp",
            ".log.jsonl.draft.tmp",
            ".log.jsonl.old.7-1.tmp",
            ".old.log.jsonl.7-1.tmp",
            "a log.jsonl.7-1.tmp",
        ];
        for name in others {
            fs::write(folder.path().join(name), "notes").unwrap();
        }
        remove_leftovers(&path).unwrap();
        assert_eq!(names(folder.path()), [&others[..], &["log.jsonl"]].concat());
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }
}
