//! Hashes of images: a few for a run that continues, all of them for a protocol.

use std::fmt::Write as _;

use paint_data::{Dataset, SampleRef, Stream};
use sha2::{Digest as _, Sha256};

use crate::Result;

/// Images of a domain that a glimpse takes in.
const GLIMPSED: usize = 64;

/// Twelve digits over the order of a stream, its labels, and some images of each domain, spread evenly: quick, and
/// other for nearly any other data.
pub fn glimpse(data: &dyn Dataset, stream: &Stream) -> Result<String> {
    let mut order = Sha256::new();
    let mut taken: Vec<Vec<usize>> = vec![Vec::new(); data.domains().len()];
    for &SampleRef { domain, index } in stream.batches.iter().flat_map(|batch| &batch.samples) {
        order.update(format!("{domain} {index} {:?}\n", data.label(domain, index)));
        taken[domain].push(index);
    }
    let mut lines = vec![hex(&order.finalize())];
    for (domain, indices) in taken.iter().enumerate() {
        let each = indices.len().div_ceil(GLIMPSED).max(1);
        let ends = indices.iter().step_by(each).chain(indices.last());
        lines.push(contents(data, domain, ends.copied())?);
    }
    Ok(digest(lines))
}

/// Twelve digits over images of one domain, with their places and labels.
pub fn contents(
    data: &dyn Dataset,
    domain: usize,
    indices: impl Iterator<Item = usize>,
) -> Result<String> {
    let mut hasher = Sha256::new();
    for index in indices {
        let content = data.content(domain, index)?;
        let label = data.label(domain, index);
        hasher.update(format!("{index} {label:?} {}\n", content.len()));
        hasher.update(content);
    }
    Ok(digest([hex(&hasher.finalize())]))
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Twelve hexadecimal digits of the SHA-256 of some lines.
pub fn digest(lines: impl IntoIterator<Item = String>) -> String {
    let mut hasher = Sha256::new();
    for line in lines {
        hasher.update(line.as_bytes());
        hasher.update(b"\n");
    }
    let hex: Vec<String> = hasher.finalize().iter().take(6).map(|b| format!("{b:02x}")).collect();
    hex.concat()
}
