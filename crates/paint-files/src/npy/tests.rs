use super::*;

fn npy(header: &str, data: &[u8]) -> Source {
    let length = (header.len() as u16).to_le_bytes();
    Source::from([MAGIC, &[1, 0], &length, header.as_bytes(), data].concat())
}

fn array(source: &Source) -> NpyArray {
    match Npy::open(source).unwrap() {
        Npy::Array(array) => array,
        Npy::Other(descr) => panic!("{descr}"),
    }
}

#[test]
fn headers_of_numpy_are_understood() {
    let parse = |text| Header::parse(text).unwrap();
    assert_eq!(
        parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n"),
        Header { descr: "<f4", fortran_order: false, shape: vec![3, 4] }
    );
    assert_eq!(parse("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }").shape, [7]);
    assert_eq!(
        parse("{'descr': '>f8', 'fortran_order': False, 'shape': (), }").shape,
        [0_usize; 0]
    );
}

#[test]
fn headers_that_are_not_numpys_are_refused() {
    for text in [
        "",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 99999999999999999999), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3",
    ] {
        assert!(Header::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_shape_must_match_the_data_and_be_countable() {
    let header =
        |shape: &str| format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
    assert_eq!(array(&npy(&header("(2, 3)"), &[0; 6])).data.len(), 6);
    assert_eq!(array(&npy(&header("(0, 3)"), &[])).data.len(), 0);
    for (shape, bytes) in [
        ("(7,)", 6),
        ("(5,)", 6),
        ("(99999999999, 99999999999)", 6),
        // Zero elements, and yet products over the other axes overflow.
        ("(1152921504606846976, 0, 5, 3)", 0),
    ] {
        assert!(Npy::open(&npy(&header(shape), &vec![0; bytes])).is_err(), "{shape}");
    }
}

#[test]
fn other_starts_versions_and_headers_too_long_are_refused() {
    let long = [MAGIC, b"\x02\x00\xff\xff\xff\xff", &[b' '; 64]].concat();
    let padded = [MAGIC, b"\x02\x00\x01\x00\x01\x00", &vec![b' '; 1 << 17]].concat();
    for bytes in [long, padded, b"\x93NUMPY\x09\0\0\0\0\0".to_vec(), b"\x93NUMP".to_vec(), vec![]] {
        let beginning = bytes[..bytes.len().min(12)].to_vec();
        assert!(Npy::open(&Source::from(bytes)).is_err(), "{beginning:02x?}");
    }
}

#[test]
fn what_is_written_is_read_and_starts_on_a_multiple_of_64() {
    let folder = tempfile::tempdir().unwrap();
    for shape in [&[3][..], &[3, 4], &[2, 3, 5, 1]] {
        let path = folder.path().join("out.npy");
        let data: Vec<u8> = (0..shape.iter().product::<usize>()).map(|i| i as u8).collect();
        crate::write_atomically(&path, |out| {
            let mut writer = NpyWriter::new(out, shape)?;
            writer.write(&data)?;
            writer.finish()
        })
        .unwrap();
        let source = Source::open(&path).unwrap();
        let found = array(&source);
        assert_eq!((&found.shape[..], found.dtype), (shape, Dtype::U8));
        assert_eq!((source.len() - found.data.len()) % 64, 0);
        assert_eq!(found.data.read_all().unwrap(), data);
    }
}

#[test]
fn an_incomplete_or_overfull_array_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.npy");
    for bytes in [5, 7] {
        let result = crate::write_atomically(&path, |out| {
            let mut writer = NpyWriter::new(out, &[2, 3])?;
            writer.write(&vec![0; bytes])?;
            writer.finish()
        });
        assert!(result.is_err());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
