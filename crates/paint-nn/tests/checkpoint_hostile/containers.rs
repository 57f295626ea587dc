//! Headers that lie: safetensors, zip and npy.

use super::archive::{Entry, zip};
use super::{assert_refused, decode};

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data]
        .concat()
}

#[test]
fn what_is_no_checkpoint_is_named() {
    assert_refused(b"", "an empty file");
    assert_refused(b"<!DOCTYPE html>", "a web page");
    assert_refused(b"version https://git-lfs.github.com/spec/v1", "git lfs pull");
    assert_refused(b"\x1f\x8b\x08", "gzip");
    assert_refused(b"hello there", "begin with [68, 65");
}

#[test]
fn a_safetensors_header_longer_than_the_file_is_refused() {
    for length in [3, 1 << 20, 1 << 40, u64::MAX] {
        let bytes = [&length.to_le_bytes()[..], b"{}"].concat();
        assert_refused(&bytes, &format!("header needs {length} bytes, 2 are left"));
    }
}

#[test]
fn safetensors_headers_that_lie_are_refused() {
    let good = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    assert_eq!(decode(&safetensors(good, &[0; 8])).unwrap().len(), 1);
    for (header, cause) in [
        (
            r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
            "expected 8 bytes of F32, found [3]",
        ),
        (
            r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}}"#,
            "expected 8 bytes of F16, found [2]",
        ),
        (
            r#"{"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}"#,
            "dtype: expected a number type",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
            "data: expected 4 bytes as the header says",
        ),
        (r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#, "data: expected 16 bytes"),
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, "to begin at byte 0"),
        (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, "to begin at byte 0"),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            "to begin at byte 8",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            "the name \"a\" appears twice",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}}"#,
            "expected 8 bytes of F32",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,0]}}"#,
            "8 bytes",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#,
            "header: expected a table of arrays",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}}"#,
            "header: expected a table of arrays",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":NaN,"data_offsets":[0,8]}}"#,
            "header: expected a table of arrays",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}"#,
            "header: expected a table of arrays",
        ),
        (r#"{"a":{"dtype":"F32","shape":[2]}}"#, "header: expected a table of arrays"),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1e30]}}"#,
            "header: expected a table of arrays",
        ),
        (r#"{"__metadata__":{"a":1}}"#, "header: expected a table of arrays"),
        (r#"{"a":"#, "header: expected a table of arrays"),
    ] {
        assert_refused(&safetensors(header, &[0; 8]), cause);
    }
    let deep = format!("{{\"a\":{}", "[".repeat(1 << 20));
    assert_refused(&safetensors(&deep, &[]), "header: expected a table of arrays");
}

#[test]
fn zip_archives_that_lie_are_refused() {
    let entry = Entry::stored("x/data.pkl", b"\x80\x02N.");
    assert_refused(&zip(&[]), "not a checkpoint");
    assert_refused(&zip(&[Entry::stored("readme.txt", b"hi")]), "expected data.pkl (PyTorch)");
    assert_refused(&zip(&[entry.clone(), entry.clone()]), "\"x/data.pkl\" appears twice");
    let damaged = |change: fn(&mut Entry)| {
        let mut entry = entry.clone();
        change(&mut entry);
        zip(&[entry])
    };
    assert_refused(&damaged(|e| e.crc32 ^= 1), "checksum");
    assert_refused(
        &damaged(|e| e.length += 1),
        "length: expected 4 bytes, as many as are stored, found 5",
    );
    assert_refused(
        &damaged(|e| e.method = 14),
        "compression: expected 0 (stored) or 8 (deflate), found 14",
    );
    assert_refused(&damaged(|e| e.flags = 1), "an encrypted entry");
    assert_refused(&damaged(|e| e.method = 8), "deflated data");

    let mut far = zip(std::slice::from_ref(&entry));
    let end = far.len() - 6;
    far[end..end + 4].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    assert_refused(&far, "central directory needs 56 bytes, 0 are left");
    far[end - 4..end].fill(0);
    assert_refused(&far, "found an empty archive");
    let order = [entry, Entry::stored("x/byteorder", b"big")];
    assert_refused(&zip(&order), "byteorder: expected little, found big");
}

#[test]
fn a_zip_bomb_is_refused_before_it_unpacks() {
    let zeros = vec![0; 100 << 20];
    let bomb = zip(&[Entry::deflated("x/data.pkl", &zeros)]);
    assert!(bomb.len() < 200_000);
    assert_refused(&bomb, "unpacking asks for 104857600 bytes");

    // The same with a header that admits to little: unpacking stops there.
    let shy = Entry { length: 1000, ..Entry::deflated("x/data.pkl", &zeros) };
    assert_refused(&zip(&[shy]), "deflated data: expected a stream of the stated length");

    // Many entries that each stay below the limit.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (262144,), }";
    let entries: Vec<Entry> = (0..100)
        .map(|i| Entry::deflated(&format!("{i}.npy"), &npy(header, &zeros[..1 << 20])))
        .collect();
    assert_refused(&zip(&entries), "more than the");
}

#[test]
fn npy_headers_that_lie_are_refused() {
    let npz = |header: &str, data: &[u8]| zip(&[Entry::stored("a.npy", &npy(header, data))]);
    for (header, cause) in [
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
            "shape: expected 8 bytes of F32, found [3]",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
            "shape: expected 8 bytes of F32, found [1]",
        ),
        (
            "{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 4294967296), }",
            "shape: expected 8 bytes",
        ),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "npy header"),
        ("nonsense", "npy header"),
    ] {
        assert_refused(&npy(header, &[0; 8]), cause);
        assert_refused(&npz(header, &[0; 8]), cause);
    }
    // An array of Python objects is a pickle: named, never opened.
    let objects = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    assert_refused(&npy(objects, b"cos\nsystem\n"), "element type: expected numbers, found |O");
    assert_eq!(
        decode(&npz(objects, b"cos\nsystem\n")).unwrap().skipped,
        [("a".to_owned(), "|O".to_owned())]
    );
    assert_refused(b"\x93NUMPY\x09\x00\x00\x00", "npy version: expected 1, 2 or 3, found 9.0");
}
