//! ONNX files that claim what is not there.

use super::protobuf::{bytes, file, header, int, model, node, tensor, varint};
use super::{assert_refused, decode};

fn of_graph(graph: &[u8], cause: &str) {
    assert_refused(&file(graph), cause);
}

fn of_tensor(tensor: &[u8], cause: &str) {
    assert_refused(&model(&[], &[tensor.to_vec()]), cause);
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    for claimed in [100, 1 << 40, u64::MAX] {
        of_graph(&[vec![0x2a], varint(claimed)].concat(), "truncated");
        of_tensor(&[vec![0x4a], varint(claimed)].concat(), "truncated");
        of_graph(&bytes(1, [vec![0x0a], varint(claimed)].concat()), "truncated");
    }
}

#[test]
fn varints_kinds_and_numbers_of_fields_that_do_not_exist_are_refused() {
    of_graph(&[0xff; 40], "64 bits");
    of_tensor(&[[0x08].as_slice(), &[0xff; 12]].concat(), "64 bits");
    for kind in [3, 4, 6, 7] {
        of_graph(&[5 << 3 | kind], "kind of a field");
    }
    of_graph(&[0x02, 0x00], "number of a field");
    of_graph(&int(5, 1), "initializer: expected bytes");
    of_tensor(&int(8, 1), "name of a tensor");
    of_tensor(&bytes(8, [0xff, 0xfe]), "UTF-8");
}

#[test]
fn shapes_that_no_memory_holds_are_refused_before_anything_is_allocated() {
    for (dims, cause) in [
        (&[-1][..], "no negative number"),
        (&[i64::MIN, 2], "no negative number"),
        (&[i64::MAX, i64::MAX], "countable"),
        (&[1 << 40, 1 << 40], "countable"),
        (&[1; 33], "at most 32 axes"),
        (&[1 << 40], "bytes of F32"),
        (&[3], "bytes of F32"),
        (&[0], "bytes of F32"),
    ] {
        of_tensor(&tensor("a.w", dims, &[1.0, 2.0]), cause);
    }
    of_tensor(&header("a.w", &[2]), "8 bytes of F32");
    of_tensor(&header("a.w", &[0, i64::MAX, i64::MAX]), "countable");
}

#[test]
fn arrays_in_the_wrong_field_twice_or_in_parts_are_refused() {
    let array = tensor("a.w", &[1], &[1.0]);
    of_tensor(&[array.clone(), bytes(9, [0; 4])].concat(), "twice");
    of_tensor(&[header("a.w", &[1]), bytes(5, [1])].concat(), "field of F32");
    of_tensor(&[header("a.w", &[1]), bytes(4, [0; 4]), bytes(5, [1])].concat(), "twice");
    of_tensor(&[array.clone(), bytes(3, [])].concat(), "segment");
    assert_refused(&model(&[], &[array.clone(), array.clone()]), "twice");
    of_graph(&bytes(15, []), "sparse_initializer");
    let twice = [int(1, 9), bytes(2, ""), bytes(7, []), bytes(7, []), bytes(8, [])].concat();
    assert_refused(&twice, "twice");
}

#[test]
fn a_file_without_a_graph_or_cut_behind_it_is_refused() {
    assert_refused(&[int(1, 9), bytes(2, "x"), bytes(8, [])].concat(), "missing \"graph\"");
    assert_refused(&[int(1, 9), bytes(2, "x"), bytes(7, [])].concat(), "opset_import");
}

#[test]
fn copies_of_one_array_are_limited() {
    let nodes: Vec<Vec<u8>> =
        (0..1000).map(|i| node("Identity", "", &["a.w"], &format!("b{i}.w"), &[])).collect();
    let array = tensor("a.w", &[4096], &[0.5; 4096]);
    assert_refused(&model(&nodes, &[array]), "asks for");
}

#[test]
fn many_small_messages_are_limited() {
    let empty = [bytes(4, "Add"), bytes(5, [])].concat();
    of_graph(&bytes(1, empty).repeat(200_000), "asks for");
    of_graph(&bytes(5, []).repeat(200_000), "asks for");
    let inputs = file(&bytes(1, bytes(1, "").repeat(400_000)));
    assert!(decode(&inputs).unwrap().is_empty(), "an operation that is not known holds nothing");
}
