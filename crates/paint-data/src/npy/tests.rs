use std::path::PathBuf;

use super::*;

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn open(bytes: &[u8]) -> Result<NpyArray> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array.npy");
    std::fs::write(&path, bytes).unwrap();
    NpyArray::open(&path)
}

/// A zip of one stored (or deflated) member.
fn npz(name: &str, data: &[u8], deflated: bool) -> Vec<u8> {
    let body =
        if deflated { miniz_oxide::deflate::compress_to_vec(data, 6) } else { data.to_vec() };
    let sizes = [body.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat();
    let method = [if deflated { 8 } else { 0 }, 0];
    let times_and_crc = [[0; 4], crc32fast::hash(data).to_le_bytes()].concat();
    let lens = [name.len() as u16, 0].map(u16::to_le_bytes).concat();
    let mut bytes = [
        b"PK\x03\x04\x14\0\0\0".as_slice(),
        &method,
        &times_and_crc,
        &sizes,
        &lens,
        name.as_bytes(),
        &body,
    ]
    .concat();
    let at = bytes.len() as u32;
    bytes.extend(
        [b"PK\x01\x02\x14\0\x14\0\0\0".as_slice(), &method, &times_and_crc, &sizes, &lens].concat(),
    );
    bytes.extend([0; 14]);
    bytes.extend(name.as_bytes());
    let len = bytes.len() as u32 - at;
    bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    bytes.extend([len, at].map(u32::to_le_bytes).concat());
    bytes.extend([0; 2]);
    bytes
}

#[test]
fn rows_and_labels_come_back() {
    let array = open(&npy(
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }\n",
        &[1, 2, 3, 4, 5, 6],
    ))
    .unwrap();
    assert_eq!((array.rows(), array.row(1).unwrap()), (2, vec![4, 5, 6]));
    let labels =
        open(&npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", &[7, 1, 255, 0]))
            .unwrap();
    assert_eq!(labels.classes().unwrap(), [263, 255]);
    let negative =
        open(&npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }", &[0, 255])).unwrap();
    assert!(negative.classes().is_err());
}

#[test]
fn lying_headers_are_refused_with_the_file_name() {
    let header =
        |shape: &str| format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
    let long = [b"\x93NUMPY\x02\x00\xff\xff\xff\xff".as_slice(), &[b' '; 64]].concat();
    let cases: Vec<Vec<u8>> = vec![
        npy(&header("(7,)"), &[0; 6]), // longer than the file
        npy(&header("(5,)"), &[0; 6]), // shorter than the file
        npy(&header("(99999999999, 99999999999)"), &[0; 6]), // overflows
        npy(&header("(-1, 6)"), &[0; 6]), // negative
        npy(&header("(6"), &[0; 6]),   // cut short
        npy("{'descr': '|u1', 'fortran_order': True, 'shape': (6,), }", &[0; 6]), // columns first
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", &[0; 6]), // pickled objects
        npy("{'descr': '>u4', 'fortran_order': False, 'shape': (1,), }", &[0; 4]),
        npy("nonsense", &[]),
        long, // a header of 4 GiB
        b"\x93NUMPY\x09\x00\x00\x00\x00\x00".to_vec(),
        b"\x93NUMP".to_vec(),
        Vec::new(),
    ];
    for bytes in cases {
        let error = open(&bytes).unwrap_err().to_string();
        assert!(error.ends_with("array.npy"), "{error}");
    }
}

#[test]
fn archives_give_their_arrays_stored_or_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("arrays.npz");
    let array = npy(
        "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2), }",
        &[0, 1, 2, 3, 4, 5, 6, 7],
    );
    for deflated in [false, true] {
        std::fs::write(&path, npz("images.npy", &array, deflated)).unwrap();
        assert_eq!(NpyArray::open_in_archive(&path, "images").unwrap().row(2).unwrap(), [4, 5]);
        let error = NpyArray::open_in_archive(&path, "labels").unwrap_err().to_string();
        assert!(error.contains("images.npy"), "{error}");
    }
}

#[test]
fn a_damaged_archive_is_refused_wherever_it_is_cut_or_flipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.npz");
    let array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2), }", &[9; 8]);
    let whole = npz("images.npy", &array, true);
    // The last two bytes are the length of the comment, which nobody needs.
    for len in 0..whole.len() - 2 {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert!(NpyArray::open_in_archive(&path, "images").is_err(), "{len}");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        std::fs::write(&path, &bytes).unwrap();
        // Some bytes (times, checksums) do not matter; what counts is that nothing panics or over-allocates.
        if let Ok(array) = NpyArray::open_in_archive(&path, "images") {
            assert_eq!(array.shape.iter().product::<usize>(), 8);
        }
    }
}
