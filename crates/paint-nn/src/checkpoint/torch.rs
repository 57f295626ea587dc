//! PyTorch checkpoints: a pickle that describes tensors, and the storages they look into.
//!
//! The zip form keeps each storage as an entry `NAME/data/KEY`; the legacy form is five pickles (a magic number, a
//! version, the machine, the object, the storage keys) followed by each storage as a count and raw elements.

mod state_dict;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use paint_files::zip::Archive;
use paint_files::{Budget, Fault, Source};

use super::array::{Array, View};
use super::pickle::{self, Heap, Node, Pickle, Storage, Tensor, Value};
use super::{Checkpoint, Format};

const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const LEGACY_VERSION: i64 = 1001;
/// More than the pickles of most networks take.
const LEGACY_PICKLES: u64 = 1 << 20;

pub(super) fn decode_zip(archive: &Archive, budget: &mut Budget) -> Result<Checkpoint, Fault> {
    let pickle = archive
        .entries()
        .iter()
        .find(|entry| entry.name == "data.pkl" || entry.name.ends_with("/data.pkl"));
    let Some(entry) = pickle else {
        let found = archive.entries().first().map_or("an empty archive", |entry| &entry.name);
        return Err(Fault::invalid(
            "zip archive",
            "data.pkl (PyTorch) or only .npy entries (NumPy)",
            found,
        ));
    };
    let folder = entry.name.strip_suffix("data.pkl").unwrap_or_default();
    if let Some(entry) = archive.find(&format!("{folder}byteorder")) {
        let order = archive.content(entry, budget)?.read_all()?;
        if order != b"little" {
            return Err(Fault::invalid("byteorder", "little", String::from_utf8_lossy(&order)));
        }
    }
    let bytes = archive.content(entry, budget)?.read_all()?;
    let pickle = pickle::load(&bytes)?;
    let index: BTreeMap<&str, _> =
        archive.entries().iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let mut storages = BTreeMap::new();
    state_dict::collect(Format::TorchZip, &pickle.heap, pickle.root, |tensor| {
        let storage = storage_of(&pickle.heap, tensor)?;
        let content = match storages.entry(storage.key) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(place) => {
                let name = format!("{folder}data/{}", storage.key);
                let entry = index.get(name.as_str()).ok_or(Fault::Missing { name })?;
                place.insert(archive.content(entry, budget)?)
            }
        };
        read_tensor(&pickle.heap, tensor, storage, content, budget)
    })
}

pub(super) fn decode_legacy(source: &Source) -> Result<Checkpoint, Fault> {
    decode_legacy_within(source, LEGACY_PICKLES)
}

/// The pickles are small beside the storages behind them, but only reading them shows where they end: a first `reach`
/// bytes are tried, and more of them if they are not enough.
fn decode_legacy_within(source: &Source, reach: u64) -> Result<Checkpoint, Fault> {
    let bytes = source.read(0, reach.min(source.len()), "pickles")?;
    let (object, keys, end) = match legacy_pickles(&bytes) {
        Err(Fault::Truncated { .. }) if reach < source.len() => {
            return decode_legacy_within(source, reach.saturating_mul(8));
        }
        pickles => pickles?,
    };
    let storages = legacy_storages(&source.rest(end as u64, "storages")?, &object.heap, &keys)?;
    let mut budget = Budget::for_file(source.len());
    state_dict::collect(Format::TorchLegacy, &object.heap, object.root, |tensor| {
        let storage = storage_of(&object.heap, tensor)?;
        let content = storages
            .get(storage.key)
            .ok_or_else(|| Fault::Missing { name: format!("storage {}", storage.key) })?;
        read_tensor(&object.heap, tensor, storage, content, &mut budget)
    })
}

/// The object that was saved, the keys of its storages, and where the pickles end.
fn legacy_pickles(bytes: &[u8]) -> Result<(Pickle<'_>, Pickle<'_>, usize), Fault> {
    let mut at = 0;
    let mut next = || -> Result<Pickle<'_>, Fault> {
        let pickle = pickle::load(&bytes[at..])?;
        at += pickle.length;
        Ok(pickle)
    };
    let magic = next()?;
    if !matches!(magic.heap.node(magic.root), Some(Node::Bytes(bytes)) if **bytes == MAGIC) {
        let found = format!("{}: a plain pickle", magic.heap.describe(magic.root));
        return Err(Fault::invalid("pickle", "the magic number of torch.save", found));
    }
    let version = next()?;
    if version.root != Value::Int(LEGACY_VERSION) {
        let found = version.heap.describe(version.root);
        return Err(Fault::invalid("legacy version", LEGACY_VERSION.to_string(), found));
    }
    let machine = next()?;
    let little_endian =
        machine.heap.dict(machine.root).unwrap_or_default().iter().any(|(key, value)| {
            machine.heap.text(*key) == Some("little_endian") && *value == Value::Bool(true)
        });
    if !little_endian {
        let found = machine.heap.describe(machine.root);
        return Err(Fault::invalid("saving machine", "a dictionary with little_endian", found));
    }
    let object = next()?;
    let keys = next()?;
    Ok((object, keys, at))
}

/// The raw data of each key, in the order of the list of keys.
fn legacy_storages<'a>(
    data: &Source,
    heap: &Heap<'a>,
    keys: &Pickle<'_>,
) -> Result<BTreeMap<&'a str, Source>, Fault> {
    let Some(Node::List(list)) = keys.heap.node(keys.root) else {
        return Err(Fault::invalid("storage keys", "a list", keys.heap.describe(keys.root)));
    };
    let known: BTreeMap<&str, Storage<'_>> =
        heap.storages().map(|storage| (storage.key, storage)).collect();
    let mut storages = BTreeMap::new();
    let mut at = 0;
    for key in list {
        let storage = keys.heap.text(*key).and_then(|key| known.get(key));
        let Some(storage) = storage else {
            let found = keys.heap.describe(*key);
            return Err(Fault::invalid(
                "storage key",
                "one that a tensor uses and whose type is read",
                found,
            ));
        };
        let mut count = [0; 8];
        data.part(at, 8, "storage length")?.fill(0, &mut count)?;
        let count = u64::from_le_bytes(count);
        if count != storage.count {
            let what = format!("storage {}", storage.key);
            return Err(Fault::invalid(what, format!("{} elements", storage.count), count));
        }
        let size = count.saturating_mul(storage.dtype.size() as u64);
        storages.insert(storage.key, data.part(at + 8, size, "storage")?);
        at += 8 + size;
    }
    Ok(storages)
}

fn storage_of<'a>(heap: &Heap<'a>, tensor: &Tensor) -> Result<Storage<'a>, Fault> {
    heap.storage(tensor.storage).ok_or_else(|| Fault::Missing { name: "storage".to_owned() })
}

fn read_tensor(
    heap: &Heap<'_>,
    tensor: &Tensor,
    storage: Storage<'_>,
    content: &Source,
    budget: &mut Budget,
) -> Result<Array, Fault> {
    let size = storage.dtype.size() as u64;
    if storage.count.checked_mul(size) != Some(content.len()) {
        let expected = format!("{} elements of {}", storage.count, storage.dtype.name());
        return Err(Fault::invalid("storage", expected, format!("{} bytes", content.len())));
    }
    let (first, count) = storage.window;
    // The window was checked against the count when the pickle was read, and the count just now.
    let window = &content.part(first * size, count * size, "storage view")?;
    let sizes = |at, what: &str| {
        heap.sizes(at).ok_or_else(|| Fault::invalid(what, "sizes, zero or more", "others"))
    };
    let shape = sizes(tensor.shape, "shape")?;
    let strides = sizes(tensor.strides, "strides")?;
    let offset = usize::try_from(tensor.offset).unwrap_or(usize::MAX);
    View { storage: window, dtype: storage.dtype, offset, shape: &shape, strides: &strides }
        .read(budget)
}
