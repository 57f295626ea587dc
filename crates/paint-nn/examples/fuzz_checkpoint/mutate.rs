//! Damage, from small to large, outside and inside of archives.

use paint_rng::Rng;

use super::archive::{Entry, zip};

/// Numbers that tempt a reader: ends of ranges, pickle instructions, zip signatures, parts of paths, of JSON and of
/// protobuf.
const TELLING: [&[u8]; 28] = [
    &[0],
    &[1],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0, 0, 0, 0, 0, 0, 0, 0],
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"(",
    b"t",
    b"R",
    b"Q",
    b"h\x01",
    b"u",
    b"b",
    b"18446744073709551615",
    b"cos\nsystem\n",
    b"../",
    b"{\"",
    b"\\u0000",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x2a\x02\x08\x01",
    b"onnx::MatMul_1",
];

pub(crate) struct Mutator {
    files: Vec<Vec<u8>>,
    /// For each archive among the files, its unpacked entries.
    unpacked: Vec<Vec<(String, Vec<u8>)>>,
    rng: Rng,
}

impl Mutator {
    pub(crate) fn new(files: Vec<Vec<u8>>, rng: Rng) -> Self {
        let unpacked = files.iter().filter_map(|file| stored_entries(file)).collect();
        Self { files, unpacked, rng }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn archives(&self) -> usize {
        self.unpacked.len()
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        if !self.unpacked.is_empty() && self.rng.below(2) == 0 {
            return self.repacked();
        }
        let mut bytes = self.files[self.rng.below(self.files.len())].clone();
        self.damage(&mut bytes);
        bytes
    }

    /// An archive with damaged entries and right checksums.
    fn repacked(&mut self) -> Vec<u8> {
        let mut entries = self.unpacked[self.rng.below(self.unpacked.len())].clone();
        for _ in 0..=self.rng.below(2) {
            // The pickle is one entry among many and the one worth damaging.
            let pickle = entries.iter().position(|(name, _)| name.ends_with("data.pkl"));
            let at =
                pickle.filter(|_| self.rng.below(4) > 0).unwrap_or(self.rng.below(entries.len()));
            self.damage(&mut entries[at].1);
        }
        let entries: Vec<Entry> = entries
            .iter()
            .map(|(name, content)| match self.rng.below(8) {
                0 => Entry::deflated(name, content),
                _ => Entry::stored(name, content),
            })
            .collect();
        zip(&entries)
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.rng.below(6) {
            if bytes.is_empty() {
                return;
            }
            let at = self.rng.below(bytes.len());
            let end = (at + 1 + self.rng.below(32)).min(bytes.len());
            match self.rng.below(8) {
                0 => bytes[at] ^= 1 << self.rng.below(8),
                1 => bytes[at] = self.rng.next_u64() as u8,
                2 => bytes.truncate(at),
                3 => {
                    bytes.drain(at..end);
                }
                4 => {
                    let copy = bytes[at..end].to_vec();
                    let to = self.rng.below(bytes.len());
                    bytes.splice(to..to, copy);
                }
                5 => {
                    let telling = TELLING[self.rng.below(TELLING.len())];
                    let end = (at + telling.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&telling[..end - at]);
                }
                6 => {
                    let telling = TELLING[self.rng.below(TELLING.len())];
                    bytes.splice(at..at, telling.iter().copied());
                }
                _ => {
                    let other = &self.files[self.rng.below(self.files.len())];
                    let from = self.rng.below(other.len());
                    let to = (from + self.rng.below(64)).min(other.len());
                    bytes.splice(at..end, other[from..to].iter().copied());
                }
            }
        }
    }
}

/// The entries of a sound archive without comment, zip64 and compression; none for anything else.
fn stored_entries(file: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let short =
        |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    let long =
        |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?) as usize);
    let end = file.len().checked_sub(22).filter(|end| file[*end..].starts_with(b"PK\x05\x06"))?;
    let mut entries = Vec::new();
    let mut at = long(end + 16)?;
    while at < end {
        let (method, size, name_length) = (short(at + 10)?, long(at + 24)?, short(at + 28)?);
        let name = file.get(at + 46..at + 46 + name_length)?;
        let header = long(at + 42)?;
        let start = header + 30 + short(header + 26)? + short(header + 28)?;
        let content = file.get(start..start + size).filter(|_| method == 0)?;
        entries.push((String::from_utf8(name.to_vec()).ok()?, content.to_vec()));
        at += 46 + name_length + short(at + 30)? + short(at + 32)?;
    }
    (!entries.is_empty()).then_some(entries)
}
