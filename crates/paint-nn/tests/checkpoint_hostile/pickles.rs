//! Pickles that want to run code, to recurse, or to be believed.

use super::archive::{Entry, zip};
use super::{assert_refused, decode};

fn torch(pickle: &[u8], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let mut entries = vec![Entry::stored("x/data.pkl", pickle)];
    entries
        .extend(storages.iter().map(|(key, data)| Entry::stored(&format!("x/data/{key}"), data)));
    zip(&entries)
}

/// A string, unremembered.
fn text(text: &str) -> Vec<u8> {
    [&[b'X'][..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn int(n: i64) -> Vec<u8> {
    [&[0x8a, 8][..], &n.to_le_bytes()].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(".to_vec(), items.concat(), b"t".to_vec()].concat()
}

fn sizes(items: &[i64]) -> Vec<u8> {
    tuple(&items.iter().map(|&n| int(n)).collect::<Vec<_>>())
}

fn global(name: &str) -> Vec<u8> {
    format!("c{}\n", name.replace(' ', "\n")).into_bytes()
}

fn storage(class: &str, key: &str, count: i64) -> Vec<u8> {
    [tuple(&[text("storage"), global(class), text(key), text("cpu"), int(count)]), b"Q".to_vec()]
        .concat()
}

fn rebuild(storage: &[u8], offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let arguments = tuple(&[storage.to_vec(), int(offset), sizes(shape), sizes(strides)]);
    [global("torch._utils _rebuild_tensor_v2"), arguments, b"R".to_vec()].concat()
}

/// `{"w": value}`.
fn state(value: &[u8]) -> Vec<u8> {
    [b"\x80\x02}".to_vec(), text("w"), value.to_vec(), b"s.".to_vec()].concat()
}

#[test]
fn a_plain_tensor_of_these_bricks_is_read() {
    let pickle = state(&rebuild(&storage("torch FloatStorage", "0", 2), 0, &[2], &[1]));
    let found = decode(&torch(&pickle, &[("0", &[0, 0, 128, 63, 0, 0, 0, 64])])).unwrap();
    assert_eq!(found.get("w").unwrap().data, [1.0, 2.0]);
}

#[test]
fn a_pickle_that_names_something_to_run_is_refused() {
    for name in [
        "os system",
        "posix system",
        "nt system",
        "os.path join",
        "subprocess Popen",
        "builtins eval",
        "builtins exec",
        "builtins getattr",
        "builtins __import__",
        "__builtin__ eval",
        "importlib import_module",
        "runpy run_path",
        "pickle loads",
        "torch load",
        "operator attrgetter",
        "sys modules",
    ] {
        let dotted = name.replace(' ', ".");
        let call = [global(name), tuple(&[text("touch /tmp/owned")]), b"R".to_vec()].concat();
        assert_refused(&torch(&state(&call), &[]), &format!("refused Python name \"{dotted}\""));
        // Protocol 4 takes the name from the stack.
        let (module, function) = name.split_once(' ').unwrap();
        let stacked =
            [text(module), text(function), vec![0x93], tuple(&[]), b"R".to_vec()].concat();
        assert_refused(&torch(&state(&stacked), &[]), &format!("refused Python name \"{dotted}\""));
    }
}

#[test]
fn instructions_that_no_checkpoint_needs_are_refused_by_name() {
    for (pickle, name) in [
        (&b"\x80\x02(S'id'\nios\nsystem\n."[..], "STRING"),
        (b"\x80\x02(ios\nsystem\n.", "INST"),
        (b"\x80\x02(cx\ny\no.", "OBJ"),
        (b"\x80\x02\x82\x01.", "EXT"),
        (b"\x80\x02Pid\n.", "PERSID"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
    ] {
        assert_refused(&torch(pickle, &[]), &format!("refused pickle instruction \"{name}\""));
    }
    assert_refused(&torch(b"\x80\x02\xfe.", &[]), "pickle instruction (pickle byte 2)");
    assert_refused(
        &torch(b"\x80\x09.", &[]),
        "pickle protocol (pickle byte 0): expected 0 to 5, found 9",
    );
}

#[test]
fn unknown_classes_are_placeholders_wherever_they_stand() {
    let object =
        [global("evil Thing"), tuple(&[text("x")]), b"R}".to_vec(), text("k"), b"Nsb".to_vec()]
            .concat();
    let tensor = rebuild(&storage("torch FloatStorage", "0", 1), 0, &[1], &[1]);
    let pickle =
        [b"\x80\x02}(".to_vec(), text("odd"), object.clone(), text("w"), tensor, b"u.".to_vec()]
            .concat();
    let found = decode(&torch(&pickle, &[("0", &[0; 4])])).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found.skipped,
        [("odd".to_owned(), "an object of evil.Thing, not interpreted".to_owned())]
    );
    assert_refused(
        &torch(&state(&object), &[]),
        "expected named tensors, found {\"w\": an object of evil.Thing",
    );

    // An attack hidden in what a tensor subclass says it is made with.
    let arguments = tuple(&[global("evil make"), global("evil Class"), tuple(&[]), b"N".to_vec()]);
    let subclass =
        [global("torch._tensor _rebuild_from_type_v2"), arguments, b"R".to_vec()].concat();
    assert_refused(&torch(&state(&subclass), &[]), "an object of evil.make, not interpreted");
}

#[test]
fn tensors_that_look_outside_their_storage_are_refused() {
    let bytes = [0; 16];
    let floats = storage("torch FloatStorage", "0", 4);
    for (offset, shape, strides) in [
        (0, &[5][..], &[1][..]),
        (1, &[4], &[1]),
        (0, &[2, 2], &[3, 1]),
        (i64::MAX, &[1], &[1]),
        (0, &[2], &[i64::MAX]),
        (0, &[i64::MAX, 2], &[0, 0]),
    ] {
        let pickle = state(&rebuild(&floats, offset, shape, strides));
        assert_refused(&torch(&pickle, &[("0", &bytes)]), "array \"w\": ");
    }
    let negative = state(&rebuild(&floats, 0, &[-1], &[1]));
    assert_refused(
        &torch(&negative, &[("0", &bytes)]),
        "array \"w\": shape: expected sizes, zero or more",
    );
    let backwards = state(&rebuild(&floats, -1, &[1], &[1]));
    assert_refused(&torch(&backwards, &[("0", &bytes)]), "tensor offset");
    let ragged = state(&rebuild(&floats, 0, &[2, 2], &[1]));
    assert_refused(&torch(&ragged, &[("0", &bytes)]), "tensor strides");
    let expanded = state(&rebuild(&floats, 0, &[1 << 30], &[0]));
    assert_refused(&torch(&expanded, &[("0", &bytes)]), "asks for 4294967432 bytes");
    let lying = state(&rebuild(&storage("torch FloatStorage", "0", 1 << 40), 0, &[1], &[1]));
    assert_refused(
        &torch(&lying, &[("0", &bytes)]),
        "expected 1099511627776 elements of F32, found 16 bytes",
    );
    let absent = state(&rebuild(&storage("torch FloatStorage", "7", 4), 0, &[1], &[1]));
    assert_refused(&torch(&absent, &[("0", &bytes)]), "missing \"x/data/7\"");
    let no_storage = state(&rebuild(&text("0"), 0, &[1], &[1]));
    assert_refused(&torch(&no_storage, &[]), "tensor storage");
}

#[test]
fn one_storage_under_many_names_cannot_fill_the_memory() {
    let mut pickle = [
        b"\x80\x02}(".to_vec(),
        text("w"),
        rebuild(&storage("torch FloatStorage", "0", 100_000), 0, &[100_000], &[1]),
    ]
    .concat();
    pickle.extend_from_slice(b"q\x00");
    for i in 0..1000 {
        pickle.extend([text(&i.to_string()), b"h\x00".to_vec()].concat());
    }
    pickle.extend_from_slice(b"u.");
    assert_refused(
        &torch(&pickle, &[("0", &vec![0; 400_000])]),
        "asks for 400136 bytes, more than the",
    );
}

#[test]
fn cycles_and_deep_nesting_end() {
    // A dictionary that is its own state_dict.
    let own = [b"\x80\x02}q\x00".to_vec(), text("state_dict"), b"h\x00s.".to_vec()].concat();
    assert_refused(&torch(&own, &[]), "expected named tensors");
    assert_refused(&torch(b"\x80\x02]q\x00h\x00a.", &[]), "expected a dictionary of tensors");
    for (brick, cause) in [
        (&b"(]q\x00"[..], "truncated"),
        (b"N\x85q\x00", "truncated"),
        (b"(", "truncated"),
        (b"]", "objects for its length"),
        (b"N2\x86", "truncated"),
    ] {
        assert_refused(&torch(&brick.repeat(300_000), &[]), cause);
    }
    let nested =
        [b"\x80\x02".to_vec(), b"]q\x00".repeat(100_000), b"a".repeat(99_999), b".".to_vec()]
            .concat();
    assert_refused(
        &torch(&nested, &[]),
        "expected a dictionary of tensors, as model.state_dict() gives, found a list",
    );
}

#[test]
fn stacks_and_memos_are_checked() {
    for (pickle, cause) in [
        (&b"\x80\x02."[..], "a value on the stack"),
        (b"\x80\x02(0.", "a value on the stack"),
        (b"\x80\x02N\x86.", "a value on the stack"),
        (b"\x80\x02t.", "a mark"),
        (b"\x80\x02h\x05.", "none at 5"),
        (b"\x80\x02j\xff\xff\xff\xff.", "none at 4294967295"),
        (b"\x80\x02}(Nu.", "dictionary items"),
        (b"\x80\x02N(NNu.", "a dictionary before them"),
        (b"\x80\x02N(Ne.", "a list before them"),
        (b"\x80\x02NNb.", "object state"),
        (b"\x80\x02N)R.", "pickle call"),
        (b"\x80\x02NQ.", "reference to a storage"),
        (b"\x80\x02B\xff\xff\xff\xff.", "pickled string needs 4294967295 bytes"),
        (
            b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
            "pickled string needs 18446744073709551615 bytes",
        ),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "pickle frame"),
        (b"\x80\x02X\x01\x00\x00\x00\xff.", "UTF-8"),
        (b"\x80\x02N", "pickle instruction needs 1 bytes"),
    ] {
        assert_refused(&torch(pickle, &[]), cause);
    }
}

/// Magic number, version, machine, the object, the keys, then storages.
fn legacy(object: &[u8], keys: &[&str], storages: &[u8]) -> Vec<u8> {
    let machine = [b"\x80\x02}".to_vec(), text("little_endian"), b"\x88s.".to_vec()].concat();
    let keys: Vec<u8> = keys.iter().flat_map(|key| text(key)).collect();
    [
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec(),
        b"\x80\x02M\xe9\x03.".to_vec(),
        machine,
        object.to_vec(),
        [b"\x80\x02](".to_vec(), keys, b"e.".to_vec()].concat(),
        storages.to_vec(),
    ]
    .concat()
}

#[test]
fn legacy_files_that_lie_are_refused() {
    let object = state(&rebuild(&storage("torch ByteStorage", "0", 2), 0, &[2], &[1]));
    let run = |count: u64, data: &[u8]| [&count.to_le_bytes()[..], data].concat();
    assert_eq!(
        decode(&legacy(&object, &["0"], &run(2, &[7, 8]))).unwrap().get("w").unwrap().data,
        [7.0, 8.0]
    );
    assert_refused(
        &legacy(&object, &["0"], &run(3, &[7, 8, 9])),
        "storage 0: expected 2 elements, found 3",
    );
    assert_refused(
        &legacy(&object, &["0"], &run(u64::MAX, &[7, 8])),
        "storage 0: expected 2 elements",
    );
    assert_refused(&legacy(&object, &["0"], &run(2, &[7])), "storage needs 2 bytes, 1 are left");
    assert_refused(&legacy(&object, &["1"], &run(2, &[7, 8])), "storage key");
    assert_refused(&legacy(&object, &[], &[]), "missing \"storage 0\"");
    let huge = state(&rebuild(&storage("torch DoubleStorage", "0", i64::MAX), 0, &[2], &[1]));
    assert_refused(
        &legacy(&huge, &["0"], &run(i64::MAX as u64, &[7, 8])),
        "storage needs 18446744073709551615 bytes",
    );
    assert_refused(b"\x80\x02}.", "a dictionary of 0: a plain pickle");
    assert_refused(
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02K\x05.",
        "legacy version",
    );

    // A window on a storage, as files before PyTorch 0.4 have.
    let window = |offset, size| {
        let view = tuple(&[text("v"), int(offset), int(size)]);
        let id = tuple(&[
            text("storage"),
            global("torch ByteStorage"),
            text("0"),
            text("cpu"),
            int(4),
            view,
        ]);
        state(&rebuild(&[id, b"Q".to_vec()].concat(), 0, &[2], &[1]))
    };
    let found = decode(&legacy(&window(1, 2), &["0"], &run(4, &[5, 6, 7, 8]))).unwrap();
    assert_eq!(found.get("w").unwrap().data, [6.0, 7.0]);
    assert_refused(&legacy(&window(3, 2), &["0"], &run(4, &[5, 6, 7, 8])), "storage view");
    assert_refused(&legacy(&window(0, 1), &["0"], &run(4, &[5, 6, 7, 8])), "storage of 1 elements");
}
