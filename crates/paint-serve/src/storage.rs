//! Where the states of a model's streams are: files of one server, or a folder for each stream that servers take in
//! turns.

mod id;
mod lease;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fault::Fault;
pub(crate) use id::{Bounds, StreamId};
pub(crate) use lease::Lease;
use lease::{Terms, numbers};

/// The ending of the folder of a stream that servers share.
const SHARED: &str = ".lease";
/// In the folder of a holder that has everything of the one before.
const READY: &str = "ready";

/// The states of a model.
#[derive(Debug)]
pub(crate) struct Storage {
    folder: PathBuf,
    /// None if one server has the folder for itself.
    terms: Option<Terms>,
}

impl Storage {
    /// States in a folder; with a lease, other servers may use it too.
    pub(crate) fn new(folder: PathBuf, lease: Option<Duration>) -> Self {
        Self { folder, terms: lease.map(Terms::new) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether streams are here that only servers with leases may use, and this one has none.
    pub(crate) fn needs_a_lease(&self) -> io::Result<bool> {
        let mut names = fs::read_dir(&self.folder)?.map(|entry| entry.map(|it| it.file_name()));
        let is_shared = |name: io::Result<std::ffi::OsString>| {
            name.map(|name| name.as_encoded_bytes().ends_with(SHARED.as_bytes()))
        };
        Ok(self.terms.is_none()
            && names.try_fold(false, |any, name| Ok::<_, io::Error>(any | is_shared(name)?))?)
    }

    /// The streams that have files here.
    pub(crate) fn saved(&self) -> io::Result<BTreeSet<StreamId>> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let name = name.to_str().unwrap_or_default();
            let id = name
                .strip_suffix(SHARED)
                .map_or_else(|| StreamId::of_file(name), StreamId::of_stem);
            found.extend(id);
        }
        Ok(found)
    }

    /// The file of a stream's state, to be read; none if there is none.
    pub(crate) fn find(&self, id: &StreamId) -> Option<PathBuf> {
        let place = self.newest(id).ok().flatten().unwrap_or_else(|| self.folder.clone());
        Some(place.join(id.file_name())).filter(|path| path.exists())
    }

    /// Whether a stream was ever used, here or by another server. One without a state may have settings.
    pub(crate) fn knows(&self, id: &StreamId) -> bool {
        let settings = self.folder.join(id.file_name()).with_extension("json");
        self.shared(id).exists() || self.find(id).is_some() || settings.exists()
    }

    /// The file of a stream's state, to be written as long as the lease lasts, if there is one.
    pub(crate) fn open(&self, id: &StreamId) -> Result<(PathBuf, Option<Lease>), Fault> {
        let Some(terms) = &self.terms else { return Ok((self.folder.join(id.file_name()), None)) };
        let shared = self.shared(id);
        let lease = Lease::take(&shared, terms)?;
        let taken = self.take_over(id, lease.place());
        taken.map_err(|error| {
            Fault::Failed(format!("cannot take over {id}: {error}: {}", shared.display()))
        })?;
        Ok((lease.place().join(id.file_name()), Some(lease)))
    }

    fn shared(&self, id: &StreamId) -> PathBuf {
        self.folder.join(id.stem() + SHARED)
    }

    /// The folder of the newest holder that has everything.
    fn newest(&self, id: &StreamId) -> io::Result<Option<PathBuf>> {
        let shared = self.shared(id);
        if !shared.exists() {
            return Ok(None);
        }
        let all = numbers(&shared)?.into_iter().rev().map(|(_, place)| place);
        Ok(all.into_iter().find(|place| place.join(READY).exists()))
    }

    /// Takes the files of the holder before, or those of a server that had the stream for itself, and removes what was
    /// before. Files are replaced, never changed, so that links are as good as copies.
    fn take_over(&self, id: &StreamId, place: &Path) -> io::Result<()> {
        let before = self.newest(id)?.unwrap_or_else(|| self.folder.clone());
        let own = id.stem() + ".";
        for entry in fs::read_dir(&before)? {
            let entry = entry?;
            let is_own = entry.file_name().as_encoded_bytes().starts_with(own.as_bytes());
            if is_own && entry.file_type()?.is_file() {
                link(&entry.path(), &place.join(entry.file_name()))?;
            }
        }
        paint_files::write_atomically(&place.join(READY), |_| Ok(()))?;
        for (_, old) in numbers(&self.shared(id))?.into_iter().filter(|(_, old)| **old < *place) {
            // Its holder may be at work in it.
            let _ = fs::remove_dir_all(old);
        }
        Ok(())
    }
}

/// A link, or a copy where there are none. A file that has just gone is no loss: its holder was told of no more.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let linked = fs::hard_link(from, to).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Err(error),
        _ => fs::copy(from, to).map(drop),
    });
    linked.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_stream_goes_from_holder_to_holder_with_all_its_files_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let id = StreamId::new("cam").unwrap().unwrap();
        let alone = Storage::new(folder.path().to_owned(), None);
        let (path, lease) = alone.open(&id).unwrap();
        assert!(lease.is_none());
        for name in ["cam.safetensors", "cam.safetensors.000000005", "cam.json", "camera.json"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        assert!(path.exists() && !alone.needs_a_lease().unwrap());

        let shared = || Storage::new(folder.path().to_owned(), Some(Duration::from_mins(1)));
        let (first, lease) = shared().open(&id).unwrap();
        let place = first.parent().unwrap().to_owned();
        let expected =
            ["cam.json", "cam.safetensors", "cam.safetensors.000000005", "lease.json", "ready"];
        assert_eq!(names(&place), expected.map(str::to_owned).into());
        fs::write(&first, "learnt").unwrap();
        assert!(alone.needs_a_lease().unwrap());
        assert!(matches!(shared().open(&id), Err(Fault::Held(_))));
        assert_eq!(shared().find(&id), Some(first.clone()));
        drop(lease);
        let (second, _lease) = shared().open(&id).unwrap();
        assert_eq!(fs::read(&second).unwrap(), b"learnt");
        assert!(second != first && !place.exists(), "the folder before is gone");
        assert_eq!(shared().saved().unwrap().into_iter().collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn a_holder_that_died_while_it_took_over_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let id = StreamId::new("cam").unwrap().unwrap();
        let storage = Storage::new(folder.path().to_owned(), Some(Duration::from_mins(1)));
        let (first, lease) = storage.open(&id).unwrap();
        fs::write(&first, "learnt").unwrap();
        drop(lease);
        let shared = folder.path().join("cam.lease");
        drop(Lease::take(&shared, storage.terms.as_ref().unwrap()).unwrap());
        assert_eq!(storage.find(&id), Some(first));
        let (third, _lease) = storage.open(&id).unwrap();
        assert_eq!(fs::read(&third).unwrap(), b"learnt");
        assert_eq!(numbers(&shared).unwrap().len(), 1);
    }
}
