//! The image files below a folder, in one order on every machine.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use paint_files::printable;

use crate::{Error, Result};

const EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "webp", "bmp"];
/// Image formats that are not supported; their files are skipped and named.
const FOREIGN: [(&str, &str); 8] = [
    ("gif", "GIF"),
    ("tif", "TIFF"),
    ("tiff", "TIFF"),
    ("heic", "HEIC"),
    ("heif", "HEIC"),
    ("avif", "AVIF"),
    ("jxl", "JPEG XL"),
    ("jp2", "JPEG 2000"),
];
/// Deep enough for any dataset.
const MAX_DEPTH: usize = 16;
/// How many skipped files a message names.
const NAMED: usize = 5;

/// What lies below a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The image files, relative to the folder, sorted.
    pub images: Vec<PathBuf>,
    /// What a user may have meant to be read, and is not; sorted.
    pub skipped: Vec<Skipped>,
}

/// A file or folder that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Its path, relative to the folder that was listed.
    pub path: PathBuf,
    /// Why.
    pub why: SkipReason,
}

/// Why a file or folder was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// An image of a format that is not read.
    Format(&'static str),
    /// A link to a folder that it lies in.
    Loop,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        match self.why {
            SkipReason::Format(format) => write!(f, "{} ({format} is not read)", printable(&path)),
            SkipReason::Loop => write!(f, "{} (a link to a folder it lies in)", printable(&path)),
        }
    }
}

impl Skipped {
    /// One line on what was skipped, none if nothing was.
    pub fn summary(skipped: &[Self]) -> Option<String> {
        let files = match skipped.len() {
            0 => return None,
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        let named: Vec<String> = skipped.iter().take(NAMED).map(Self::to_string).collect();
        let more = if skipped.len() > NAMED { ", ..." } else { "" };
        Some(format!("skipped {files}: {}{more}", named.join(", ")))
    }
}

/// Lists a folder and those below it. Hidden files are left out.
pub fn list_images(root: &Path) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut above = vec![canonical(root)?];
    visit(root, Path::new(""), &mut above, &mut listing)?;
    listing.images.sort_unstable();
    listing.skipped.sort_unstable();
    Ok(listing)
}

/// The image files of [`list_images`].
pub fn images_below(root: &Path) -> Result<Vec<PathBuf>> {
    Ok(list_images(root)?.images)
}

/// Lists the folder `below`; `above` are the real places of the folders down to it, the last its own.
fn visit(root: &Path, below: &Path, above: &mut Vec<PathBuf>, listing: &mut Listing) -> Result<()> {
    let folder = root.join(below);
    if above.len() > MAX_DEPTH + 1 {
        let expected = format!("at most {MAX_DEPTH} levels of folders");
        return Err(Error::format(expected, "more", folder));
    }
    let io = |source| Error::io(source, &folder);
    for entry in std::fs::read_dir(&folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = below.join(&name);
        let extension = path.extension().and_then(|extension| extension.to_str());
        let extension = extension.map(str::to_ascii_lowercase).unwrap_or_default();
        let kind = std::fs::metadata(root.join(&path)).map(|metadata| metadata.file_type());
        match kind {
            Ok(kind) if kind.is_dir() => {
                let place = canonical(&root.join(&path))?;
                if above.contains(&place) {
                    listing.skipped.push(Skipped { path, why: SkipReason::Loop });
                    continue;
                }
                above.push(place);
                visit(root, &path, above, listing)?;
                above.pop();
            }
            // A pipe or a device of that name would be waited for.
            Ok(kind) if !kind.is_file() => {}
            _ if EXTENSIONS.contains(&extension.as_str()) => listing.images.push(path),
            _ => {
                let foreign = FOREIGN.iter().find(|(known, _)| *known == extension);
                let why = foreign.map(|(_, format)| SkipReason::Format(format));
                listing.skipped.extend(why.map(|why| Skipped { path, why }));
            }
        }
    }
    Ok(())
}

fn canonical(folder: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(folder).map_err(|source| Error::io(source, folder))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_other_formats_are_skipped_by_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        for name in ["a.png", "b/c.GIF", "d.tiff", "notes.txt", ".hidden.gif", "e\u{1b}[2J.heic"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let listing = list_images(folder.path()).unwrap();
        assert_eq!(listing.images, [Path::new("a.png")]);
        assert_eq!(
            Skipped::summary(&listing.skipped).unwrap(),
            "skipped 3 files: b/c.GIF (GIF is not read), d.tiff (TIFF is not read), \
             e\\u{1b}[2J.heic (HEIC is not read)"
        );
        assert_eq!(Skipped::summary(&[]), None);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_to_a_folder_it_lies_in_is_skipped_and_other_links_are_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| folder.path().join(name));
        for place in [&inside, &outside] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("a.png"), "").unwrap();
        }
        symlink(".", inside.join("here")).unwrap();
        symlink(&inside, outside.join("there")).unwrap();
        symlink("missing", outside.join("b.png")).unwrap();
        let listing = list_images(&outside).unwrap();
        let expected = ["a.png", "b.png", "there/a.png"].map(PathBuf::from);
        assert_eq!(listing.images, expected);
        let here = Skipped { path: "there/here".into(), why: SkipReason::Loop };
        assert_eq!(listing.skipped, [here]);
    }
}
