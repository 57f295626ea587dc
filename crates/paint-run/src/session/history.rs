//! Earlier states of an adaptation, beside its file: `state.safetensors.000000120` is the state after 120 batches.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use paint_files::claim_file;
use paint_nn::state::file::{self, Kind, Saved};
use paint_tensor::Device;
use serde::Serialize;

use super::store::{PROGRESS, Progress, is_of_subject};
use crate::{Error, Result};

/// Digits of the number of batches in the name of a file.
const DIGITS: usize = 9;

/// A saved state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Version {
    /// Its file.
    pub path: PathBuf,
    /// Whether it is the one that the next session begins with.
    pub current: bool,
    /// Batches that it has adapted to.
    pub batches: u64,
    /// Images that it has adapted to.
    pub images: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Method and model that it belongs to, by dotted key.
    pub subject: BTreeMap<String, String>,
    /// Arrays that the method changed, with their shapes.
    #[serde(skip)]
    pub arrays: Vec<(String, Vec<usize>)>,
}

/// Reads a state of an adaptation; every bit of it is checked.
pub fn show(path: &Path) -> Result<Version> {
    let Saved { state, about } = file::read(path, Kind::Adaptation, &Device::cpu())?;
    let progress: Progress = file::entry(&about, PROGRESS, path)?;
    let io = |source| Error::Io { action: "read", source, path: path.to_owned() };
    Ok(Version {
        bytes: fs::metadata(path).map_err(io)?.len(),
        path: path.to_owned(),
        current: true,
        batches: progress.batches,
        images: progress.images,
        subject: about.into_iter().filter(|(key, _)| is_of_subject(key)).collect(),
        arrays: state
            .tensors
            .iter()
            .map(|(name, it)| (name.clone(), it.shape().to_vec()))
            .collect(),
    })
}

/// The state in a file, and those that were kept beside it, the newest first.
pub fn list(path: &Path) -> Result<Vec<Version>> {
    let mut versions = vec![show(path)?];
    for (_, kept) in kept(path)?.into_iter().rev() {
        versions.push(Version { current: false, ..show(&kept)? });
    }
    Ok(versions)
}

/// Puts an earlier state in place of the one in the file: the one after `batches` batches, or the newest that is
/// older than the present one. Says which.
pub fn roll_back(path: &Path, batches: Option<u64>) -> Result<Version> {
    let _claim = claim_file(path)?;
    // A copy may be sound where the file is damaged.
    let present = show(path);
    let known = present.as_ref().ok().map(|present| present.batches);
    let earlier = match (earlier(path, known, batches), present) {
        (Err(_), Err(damage)) => return Err(damage),
        (earlier, _) => earlier?,
    };
    let version = show(&earlier)?;
    copy(&earlier, path)?;
    Ok(Version { path: path.to_owned(), ..version })
}

/// The kept state after `batches` batches, or the newest of fewer than `present`; the newest of all where that is not
/// known.
pub fn earlier(path: &Path, present: Option<u64>, batches: Option<u64>) -> Result<PathBuf> {
    let kept = kept(path)?;
    let is_older = |of: u64| present.is_none_or(|present| of < present);
    let wanted = |of: &u64| batches.map_or_else(|| is_older(*of), |batches| *of == batches);
    let Some((_, earlier)) = kept.iter().rev().find(|(of, _)| wanted(of)) else {
        let known: Vec<String> = kept.iter().map(|(of, _)| of.to_string()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let asked = match (batches, present) {
            (Some(batches), _) => format!("the state after {batches} batches"),
            (None, Some(present)) => format!("a state of fewer than {present} batches"),
            (None, None) => "an earlier state".to_owned(),
        };
        let found = format!("{known} kept beside it (adapt --keep N keeps some)");
        return Err(Error::Checkpoint { expected: asked, found, path: path.to_owned() });
    };
    Ok(earlier.clone())
}

/// Keeps a copy of the file as the state after so many batches, and the `count` newest copies beside those that are
/// pinned. A pinned copy is not replaced.
pub(super) fn keep(path: &Path, batches: u64, count: usize) -> Result<()> {
    if is_pinned(path, batches) {
        return Ok(());
    }
    copy(path, &place(path, batches))?;
    let mut kept = kept(path)?;
    kept.retain(|(batches, _)| !is_pinned(path, *batches));
    // After a rollback the newest copies are not those of the most batches.
    kept.sort_by_key(|(_, copy)| fs::metadata(copy).and_then(|about| about.modified()).ok());
    for (_, old) in &kept[..kept.len().saturating_sub(count)] {
        let io = |source| Error::Io { action: "remove", source, path: old.clone() };
        fs::remove_file(old).map_err(io)?;
    }
    Ok(())
}

/// Keeps the copy after so many batches however many newer ones there are.
pub fn pin(path: &Path, batches: u64) -> Result<()> {
    let place = earlier(path, None, Some(batches))?;
    Ok(paint_data::write_atomically(&mark(&place), |_| Ok(()))?)
}

/// Makes a copy one of those that newer ones replace.
pub fn unpin(path: &Path, batches: u64) -> Result<()> {
    let mark = mark(&earlier(path, None, Some(batches))?);
    match fs::remove_file(&mark) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { action: "remove", source, path: mark })
        }
        _ => Ok(()),
    }
}

/// Whether the copy after so many batches is pinned.
pub fn is_pinned(path: &Path, batches: u64) -> bool {
    mark(&place(path, batches)).exists()
}

/// The empty file beside a copy that pins it.
fn mark(copy: &Path) -> PathBuf {
    let mut name = copy.as_os_str().to_owned();
    name.push(".pin");
    name.into()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).map_err(|source| Error::Io {
        action: "read",
        source,
        path: from.to_owned(),
    })?;
    Ok(paint_data::write_atomically(to, |file| file.write_all(&bytes))?)
}

fn place(path: &Path, batches: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{batches:0DIGITS$}"));
    name.into()
}

/// The copies by their number of batches, the oldest first.
pub fn kept(path: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let io = |source| Error::Io { action: "read", source, path: folder.to_owned() };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let own = path.file_name().unwrap_or_default().as_encoded_bytes();
        let rest =
            name.as_encoded_bytes().strip_prefix(own).and_then(|rest| rest.strip_prefix(b"."));
        let digits = rest.and_then(|rest| std::str::from_utf8(rest).ok());
        let is_number =
            |text: &&str| text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        if let Some(batches) = digits.filter(is_number).and_then(|text| text.parse().ok()) {
            found.push((batches, place(path, batches)));
        }
    }
    found.sort_unstable();
    Ok(found)
}
