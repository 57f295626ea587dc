//! Where a path leads, so that two can be compared, and what lies there.

use std::io;
use std::path::{self, Path, PathBuf};

use crate::Usage;

/// The file or folder by which the results of each command are known.
const MARKS: [(&str, &str); 5] = [
    ("run", "config.toml"),
    ("bench", "cells"),
    ("bench", "protocol.toml"),
    ("demo", "demo.html"),
    ("tune", "runs"),
];

/// Refuses a folder that holds the results of another command than this one.
pub(crate) fn refuse_foreign(out: &Path, command: &str) -> Result<(), Usage> {
    let mut others = MARKS.iter().filter(|(other, _)| *other != command);
    match others.find(|(_, mark)| out.join(mark).exists()) {
        Some((other, mark)) => Err(Usage(format!(
            "{} holds {mark} of `paint {other}`: give another --out",
            out.display()
        ))),
        None => Ok(()),
    }
}

/// The place of a path by whatever name it goes, whether or not its last parts are there yet.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = path::absolute(path)?;
    let known = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    Ok(known.map_or_else(
        || path.clone(),
        |(part, found)| found.join(path.strip_prefix(part).unwrap_or(Path::new(""))),
    ))
}
