//! Which names a pickle may use, and what calling them means here.
//!
//! Python's own unpickler imports whatever a pickle names and calls it, which is why loading a stranger's `.pth` runs
//! a stranger's code. Here a name is only text: the few that build tensors and dictionaries are understood, names
//! that only an attack would use end the reading, and every other class becomes a placeholder that holds nothing.

use super::value::{Global, Heap, Node, Storage, Tensor, Value};
use paint_files::{Dtype, Fault};

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// `_rebuild_tensor(storage, offset, size, stride)`; `_v2` adds arguments that do not matter here.
    RebuildTensor,
    /// `_rebuild_parameter(tensor, requires_grad, hooks)`, with or without a trailing state.
    RebuildParameter,
    /// `_rebuild_from_type_v2(function, type, arguments, state)`.
    RebuildFromType,
    OrderedDict,
    DefaultDict,
}

fn known(global: Global<'_>) -> Option<Known> {
    Some(match (global.module, global.name) {
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Known::RebuildTensor,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
            Known::RebuildParameter
        }
        ("torch._tensor", "_rebuild_from_type_v2") => Known::RebuildFromType,
        ("collections", "OrderedDict") => Known::OrderedDict,
        ("collections", "defaultdict") => Known::DefaultDict,
        _ => return None,
    })
}

/// Names whose only use in a pickle is to run code or to reach the machine.
///
/// They could do nothing here, but weights that come with an attack deserve no trust, and the user should hear of it.
fn hostile(global: Global<'_>) -> bool {
    const MODULES: [&str; 18] = [
        "os",
        "posix",
        "nt",
        "sys",
        "subprocess",
        "pty",
        "shutil",
        "socket",
        "ctypes",
        "importlib",
        "runpy",
        "pdb",
        "webbrowser",
        "pickle",
        "_pickle",
        "cPickle",
        "marshal",
        "commands",
    ];
    const BUILTINS: [&str; 15] = [
        "eval",
        "exec",
        "execfile",
        "compile",
        "open",
        "file",
        "__import__",
        "getattr",
        "setattr",
        "delattr",
        "globals",
        "locals",
        "vars",
        "input",
        "breakpoint",
    ];
    const ELSEWHERE: [(&str, &str); 7] = [
        ("operator", "attrgetter"),
        ("operator", "methodcaller"),
        ("functools", "reduce"),
        ("types", "CodeType"),
        ("types", "FunctionType"),
        ("torch", "load"),
        ("torch.hub", "load"),
    ];
    let root = global.module.split('.').next().unwrap_or_default();
    MODULES.contains(&root)
        || (matches!(global.module, "builtins" | "__builtin__") && BUILTINS.contains(&global.name))
        || ELSEWHERE.contains(&(global.module, global.name))
}

/// A name enters the pickle.
pub(super) fn named<'a>(
    heap: &mut Heap<'a>,
    module: &'a str,
    name: &'a str,
) -> Result<Value, Fault> {
    let global = Global { module, name };
    if hostile(global) {
        let why =
            "it has no place among weights and would run code in Python; nothing was executed";
        return Err(Fault::Refused { what: "Python name", name: global.to_string(), why });
    }
    heap.add(Node::Global(Box::new(global)))
}

/// The pickle calls something.
pub(super) fn called(heap: &mut Heap<'_>, callee: Value, arguments: Value) -> Result<Value, Fault> {
    let Value::Node(at) = callee else { return Err(not_callable(heap, callee)) };
    match heap.node(callee) {
        Some(Node::Global(global)) => match known(**global) {
            Some(known) => call(heap, known, arguments),
            None => heap.add(Node::Opaque(Some(at))),
        },
        Some(Node::Opaque(class)) => {
            let class = *class;
            heap.add(Node::Opaque(class))
        }
        _ => Err(not_callable(heap, callee)),
    }
}

fn not_callable(heap: &Heap<'_>, callee: Value) -> Fault {
    Fault::invalid("pickle call", "the name of a class or function", heap.describe(callee))
}

fn call(heap: &mut Heap<'_>, known: Known, arguments: Value) -> Result<Value, Fault> {
    let Some(items) = heap.tuple(arguments) else {
        return Err(Fault::invalid("arguments", "a tuple", heap.describe(arguments)));
    };
    match (known, items) {
        (Known::RebuildTensor, &[storage, offset, shape, strides, ..]) => {
            // Of a type that is not read, complex numbers for instance: a placeholder in a placeholder's place.
            if let Some(Node::Opaque(class)) = heap.node(storage) {
                return heap.add(Node::Opaque(*class));
            }
            let tensor = tensor(heap, storage, offset, shape, strides)?;
            heap.add(Node::Tensor(Box::new(tensor)))
        }
        (Known::RebuildParameter, &[tensor, ..]) => Ok(tensor),
        (Known::RebuildFromType, &[function, _, arguments, ..]) => match heap.node(function) {
            // The function must be a plain one: a chain of this function through itself would never end.
            Some(Node::Global(global)) => match self::known(**global) {
                Some(inner @ (Known::RebuildTensor | Known::RebuildParameter)) => {
                    call(heap, inner, arguments)
                }
                _ => called(heap, function, Value::None),
            },
            _ => Err(not_callable(heap, function)),
        },
        (Known::OrderedDict | Known::DefaultDict, []) | (Known::DefaultDict, [_]) => {
            heap.add(Node::Dict(Vec::new()))
        }
        (Known::OrderedDict, &[pairs]) => ordered_dict(heap, pairs),
        _ => Err(Fault::invalid(
            "arguments",
            format!("those of {known:?}"),
            format!("{} of them", items.len()),
        )),
    }
}

fn tensor(
    heap: &Heap<'_>,
    storage: Value,
    offset: Value,
    shape: Value,
    strides: Value,
) -> Result<Tensor, Fault> {
    const MAX_AXES: usize = 64;
    let refuse = |what: &str, expected: &str, value| {
        Err(Fault::invalid(what, expected, heap.describe(value)))
    };
    let Value::Node(storage_at) = storage else {
        return refuse("tensor storage", "a storage", storage);
    };
    if heap.storage(storage_at).is_none() {
        return refuse("tensor storage", "a storage", storage);
    }
    let first = match offset {
        Value::Int(n) => u64::try_from(n).ok(),
        _ => None,
    };
    let Some(first) = first else {
        return refuse("tensor offset", "a whole number, zero or more", offset);
    };
    let axes = |value: Value| match value {
        Value::Node(at) => {
            heap.tuple(value).filter(|items| items.len() <= MAX_AXES).map(|items| (at, items.len()))
        }
        _ => None,
    };
    let Some((shape_at, rank)) = axes(shape) else {
        return refuse("tensor shape", "a tuple of sizes", shape);
    };
    match axes(strides) {
        Some((strides_at, n)) if n == rank => {
            Ok(Tensor { storage: storage_at, offset: first, shape: shape_at, strides: strides_at })
        }
        _ => refuse("tensor strides", "a tuple as long as the shape", strides),
    }
}

/// Python 2 and protocol 1 give the items as a list of pairs.
fn ordered_dict(heap: &mut Heap<'_>, pairs: Value) -> Result<Value, Fault> {
    let Some(Node::List(items)) = heap.node_mut(pairs) else {
        return Err(Fault::invalid("OrderedDict", "a list of pairs", heap.describe(pairs)));
    };
    // The list is taken, not copied: it was made for this call, and copying would let one list fill many dictionaries.
    let items = std::mem::take(items);
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        match heap.node(item) {
            Some(Node::List(pair) | Node::Tuple(pair)) if pair.len() == 2 => {
                entries.push((pair[0], pair[1]));
            }
            _ => return Err(Fault::invalid("OrderedDict", "a list of pairs", heap.describe(item))),
        }
    }
    heap.add(Node::Dict(entries))
}

/// A reference to data outside the pickle: `('storage', type, key, location, count[, window])`.
pub(super) fn persistent(heap: &mut Heap<'_>, id: Value) -> Result<Value, Fault> {
    let Some(items) = heap.tuple(id) else {
        return Err(Fault::invalid("reference to a storage", "a tuple", heap.describe(id)));
    };
    let kind = items.first().and_then(|kind| heap.text(*kind));
    if kind == Some("module") {
        // A model saved whole: its source code stands here, and stays text.
        return heap.add(Node::Opaque(None));
    }
    let &[_, class, key, _, count, ref rest @ ..] = items else {
        return Err(Fault::invalid("reference to a storage", "five or six items", items.len()));
    };
    let (Value::Node(class_at), Some(Node::Global(global))) = (class, heap.node(class)) else {
        return Err(Fault::invalid("storage type", "a class of torch", heap.describe(class)));
    };
    let Some(dtype) = storage_type(**global) else { return heap.add(Node::Opaque(Some(class_at))) };
    let whole = |value: Value| match value {
        Value::Int(n) => u64::try_from(n).ok(),
        _ => None,
    };
    let (Some("storage"), Some(key), Some(count)) = (kind, heap.text(key), whole(count)) else {
        return Err(Fault::invalid(
            "reference to a storage",
            "('storage', type, key, location, count)",
            "others",
        ));
    };
    let window = match rest.first() {
        None | Some(Value::None) => (0, count),
        Some(view) => {
            let window = match heap.tuple(*view) {
                Some(&[_, offset, size]) => whole(offset).zip(whole(size)),
                _ => None,
            };
            match window {
                Some((offset, size))
                    if offset.checked_add(size).is_some_and(|end| end <= count) =>
                {
                    (offset, size)
                }
                _ => {
                    let expected = format!("a window on {count} elements");
                    return Err(Fault::invalid("storage view", expected, heap.describe(*view)));
                }
            }
        }
    };
    heap.add(Node::Storage(Box::new(Storage { key, dtype, count, window })))
}

fn storage_type(class: Global<'_>) -> Option<Dtype> {
    if !matches!(class.module, "torch" | "torch.cuda") {
        return None;
    }
    Some(match class.name {
        "DoubleStorage" => Dtype::F64,
        "FloatStorage" => Dtype::F32,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::Bf16,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "ShortStorage" => Dtype::I16,
        "CharStorage" => Dtype::I8,
        "ByteStorage" => Dtype::U8,
        "BoolStorage" => Dtype::Bool,
        _ => return None,
    })
}
