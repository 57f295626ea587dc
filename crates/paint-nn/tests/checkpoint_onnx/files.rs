//! Arrays in files beside a graph.

use std::fs;
use std::path::Path;

use paint_nn::checkpoint;

use super::fixture;
use super::protobuf::{bytes, header, int, model};

/// A float array whose elements lie elsewhere.
fn external(name: &str, dims: &[i64], place: &[(&str, &str)]) -> Vec<u8> {
    let entry = |(key, value): &(&str, &str)| bytes(13, [bytes(1, key), bytes(2, value)].concat());
    let place: Vec<u8> = place.iter().flat_map(entry).collect();
    [header(name, dims), place, int(14, 1)].concat()
}

/// A graph with an array of two floats at this place, and a file `data` with three.
fn graph(place: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let floats: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(folder.path().join("data"), floats).unwrap();
    fs::write(folder.path().join("model.onnx"), model(&[], &[external("a.w", &[2], place)]))
        .unwrap();
    folder
}

fn read(place: &[(&str, &str)]) -> Result<Vec<f32>, String> {
    let folder = graph(place);
    let found = checkpoint::read(folder.path()).map_err(|error| error.to_string())?;
    Ok(found.get("a.w").unwrap().data.clone())
}

#[test]
fn arrays_are_read_where_the_graph_says() {
    assert_eq!(read(&[("location", "data")]).unwrap(), [1.0, 2.0]);
    let place = [("location", "data"), ("offset", "4"), ("length", "8"), ("checksum", "none")];
    assert_eq!(read(&place).unwrap(), [2.0, 3.0]);
}

#[test]
fn places_elsewhere_and_beyond_the_end_are_refused_by_name() {
    for (place, cause) in [
        (&[("location", "../data")][..], "beside the graph"),
        (&[("location", "/etc/hostname")], "beside the graph"),
        (&[("location", "folder/data")], "beside the graph"),
        (&[("location", "..\\data")], "beside the graph"),
        (&[("location", "..")], "beside the graph"),
        (&[("location", "")], "beside the graph"),
        (&[("location", "other")], "other"),
        (&[("offset", "0")], "location"),
        (&[("location", "data"), ("offset", "-4")], "whole number"),
        (&[("location", "data"), ("offset", "8")], "truncated"),
        (&[("location", "data"), ("offset", "18446744073709551615")], "truncated"),
        (&[("location", "data"), ("length", "4")], "8 bytes"),
        (&[("location", "data"), ("location", "data")], "twice"),
    ] {
        let error = read(place).unwrap_err();
        assert!(error.contains(cause) && error.contains("model.onnx"), "{place:?}: {error}");
    }
}

#[test]
fn a_graph_in_memory_has_no_files_beside_it() {
    let graph = model(&[], &[external("a.w", &[2], &[("location", "data")])]);
    let error = checkpoint::decode(&graph, Path::new("some.onnx")).unwrap_err().to_string();
    assert!(error.contains("read from its folder"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_device_in_place_of_a_file_is_refused() {
    let folder = graph(&[("location", "data")]);
    fs::remove_file(folder.path().join("data")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("data")).unwrap();
    let error = checkpoint::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn the_fingerprint_covers_the_files_beside_a_graph() {
    let name = "timm_vit_dynamo.onnx";
    let folder = tempfile::tempdir().unwrap();
    let (graph, data) = (folder.path().join(name), folder.path().join(format!("{name}.data")));
    fs::copy(fixture(name), &graph).unwrap();
    let mut bytes = fs::read(fixture(&format!("{name}.data"))).unwrap();
    fs::write(&data, &bytes).unwrap();
    let before = checkpoint::sha256(&graph).unwrap();
    assert_eq!(before, checkpoint::sha256(fixture(name)).unwrap());
    bytes[100] ^= 1;
    fs::write(&data, &bytes).unwrap();
    assert_ne!(before, checkpoint::sha256(&graph).unwrap());
    fs::remove_file(&data).unwrap();
    assert!(checkpoint::sha256(&graph).unwrap_err().to_string().contains(".onnx.data"));
}
