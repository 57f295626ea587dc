//! The image files below a folder, in one order on every machine.

use std::path::{Component, Path, PathBuf};

use crate::{Error, Result};

const EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "webp", "bmp"];
/// Deep enough for any dataset, and an end to folders that link to themselves.
const MAX_DEPTH: usize = 16;

/// The paths, relative to `root`, of all image files below it, sorted; hidden files are left out.
pub fn images_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    visit(root, Path::new(""), 0, &mut found)?;
    found.sort_unstable();
    Ok(found)
}

fn visit(root: &Path, below: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    if depth > MAX_DEPTH {
        return Err(Error::format(
            format!("at most {MAX_DEPTH} levels of folders"),
            "more",
            folder,
        ));
    }
    let io = |source| Error::io(source, &folder);
    for entry in std::fs::read_dir(&folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = below.join(&name);
        let extension =
            path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        let is_image = extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()));
        let kind = std::fs::metadata(root.join(&path)).map(|metadata| metadata.file_type());
        match kind {
            Ok(kind) if kind.is_dir() => visit(root, &path, depth + 1, found)?,
            // A pipe or a device of that name would be waited for.
            Ok(kind) if !kind.is_file() => {}
            _ if is_image => found.push(path),
            _ => {}
        }
    }
    Ok(())
}

/// The bytes of a file.
pub(super) fn content(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| Error::io(source, path))
}

/// The first folder of a relative path, if the file is in one.
pub(super) fn top_folder(path: &Path) -> Option<&str> {
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(folder)), Some(_)) => folder.to_str(),
        _ => None,
    }
}
