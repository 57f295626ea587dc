//! Writing zip archives, good and bad, for readers to stumble over.

/// One entry as the archive will claim it to be.
#[derive(Clone)]
pub(crate) struct Entry {
    pub name: String,
    /// The bytes in the file.
    pub packed: Vec<u8>,
    /// 0 stored, 8 deflated.
    pub method: u16,
    pub flags: u16,
    pub crc32: u32,
    /// The claimed length of the content.
    pub length: u32,
}

impl Entry {
    pub(crate) fn stored(name: &str, content: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            packed: content.to_vec(),
            method: 0,
            flags: 0,
            crc32: crc32fast::hash(content),
            length: content.len() as u32,
        }
    }

    pub(crate) fn deflated(name: &str, content: &[u8]) -> Self {
        let packed = miniz_oxide::deflate::compress_to_vec(content, 6);
        Self { packed, method: 8, ..Self::stored(name, content) }
    }
}

pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let offset = out.len() as u32;
        let mut fields = Vec::new();
        for field in [20, entry.flags, entry.method, 0, 0] {
            fields.extend_from_slice(&field.to_le_bytes());
        }
        for field in [entry.crc32, entry.packed.len() as u32, entry.length] {
            fields.extend_from_slice(&field.to_le_bytes());
        }
        fields.extend_from_slice(&(entry.name.len() as u16).to_le_bytes());
        fields.extend_from_slice(&[0, 0]);

        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&fields);
        out.extend_from_slice(entry.name.as_bytes());
        out.extend_from_slice(&entry.packed);

        directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        directory.extend_from_slice(&fields);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(entry.name.as_bytes());
    }
    let start = out.len() as u32;
    out.extend_from_slice(&directory);
    let count = (entries.len() as u16).to_le_bytes();
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&count);
    out.extend_from_slice(&count);
    out.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out
}
