//! Where a path leads, so that two can be compared.

use std::io;
use std::path::{self, Path, PathBuf};

/// The place of a path by whatever name it goes, whether or not its last parts are there yet.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = path::absolute(path)?;
    let known = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    Ok(known.map_or_else(
        || path.clone(),
        |(part, found)| found.join(path.strip_prefix(part).unwrap_or(Path::new(""))),
    ))
}
