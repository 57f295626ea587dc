//! Elements that lie in files beside a graph.
//!
//! The graph says which file, and strangers write graphs: a file elsewhere is refused.

use std::path::{Component, Path, PathBuf};

use paint_files::{Fault, Source, abridged};

/// Where the elements of an array are.
#[derive(Debug)]
pub(super) struct Place {
    pub location: String,
    offset: u64,
    /// As long as the array if nothing is said.
    length: Option<u64>,
}

impl Place {
    pub(super) const KEYS: [&str; 3] = ["location", "offset", "length"];

    /// From the keys and values of `external_data`.
    pub(super) fn parse(entries: &[(String, String)]) -> Result<Self, Fault> {
        let get = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, value)| value);
        let number = |key: &str| {
            let wrong = |text: &String| Fault::invalid(key, "a whole number of bytes", text);
            get(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
        };
        let location = get("location").ok_or(Fault::Missing { name: "location".to_owned() })?;
        let mut components = Path::new(location).components();
        let is_plain =
            matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
        if !is_plain || location.contains('\\') {
            let expected = "the name of a file beside the graph";
            return Err(Fault::invalid("location of external data", expected, location));
        }
        Ok(Self {
            location: location.clone(),
            offset: number("offset")?.unwrap_or(0),
            length: number("length")?,
        })
    }
}

/// The folder of a graph, and the file of it that was opened last.
#[derive(Debug)]
pub(super) struct Beside<'a> {
    folder: Option<&'a Path>,
    last: Option<(String, Source)>,
}

impl<'a> Beside<'a> {
    /// A graph in memory has no folder.
    pub(super) fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, last: None }
    }

    /// The path of a file in the folder.
    pub(super) fn path(&self, location: &str) -> Result<PathBuf, Fault> {
        self.folder.map(|folder| folder.join(location)).ok_or_else(|| {
            let expected = "a graph that is read from its folder";
            Fault::invalid("external data", expected, abridged(location))
        })
    }

    /// The elements of an array of `bytes` bytes.
    pub(super) fn open(&mut self, place: &Place, bytes: u64) -> Result<Source, Fault> {
        let file = match &self.last {
            Some((location, file)) if *location == place.location => file.clone(),
            _ => {
                let path = self.path(&place.location)?;
                let file = Source::open(&path).map_err(|error| {
                    let found = format!("{}: {error}", abridged(&place.location));
                    Fault::invalid("external data", "a file beside the graph", found)
                })?;
                self.last = Some((place.location.clone(), file.clone()));
                file
            }
        };
        file.part(place.offset, place.length.unwrap_or(bytes), "external data")
    }
}
