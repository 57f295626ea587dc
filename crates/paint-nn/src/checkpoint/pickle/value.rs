//! What a pickle builds: values on a stack, containers in an arena.
//!
//! Containers hold indices rather than each other, so a pickle that nests a million lists or closes a cycle makes
//! nothing recursive, neither here nor when it is dropped.

use paint_files::{Dtype, Fault, abridged};

/// A plain value, or the place of a container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Node(u32),
}

impl Value {
    /// Where a container lies: one place for one container, in the order in which they were made.
    pub(in super::super) fn place(self) -> Option<u32> {
        match self {
            Self::Node(at) => Some(at),
            _ => None,
        }
    }
}

/// A class or function that a pickle names; nothing is ever looked up under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Global<'a> {
    pub module: &'a str,
    pub name: &'a str,
}

impl std::fmt::Display for Global<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", abridged(self.module), abridged(self.name))
    }
}

/// A run of elements somewhere in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Storage<'a> {
    pub key: &'a str,
    pub dtype: Dtype,
    /// Number of elements of the whole storage.
    pub count: u64,
    /// The part that counts, as (first element, number of elements); the legacy format alone can narrow it.
    pub window: (u64, u64),
}

/// A tensor: a storage and how to walk it. Shape and strides stay where the pickle put them.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Tensor {
    pub storage: u32,
    pub offset: u64,
    pub shape: u32,
    pub strides: u32,
}

#[derive(Debug)]
pub(in super::super) enum Node<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Global(Box<Global<'a>>),
    Storage(Box<Storage<'a>>),
    Tensor(Box<Tensor>),
    /// An object of a class that is not interpreted: a placeholder with the class's name, when it is known.
    Opaque(Option<u32>),
}

/// The arena of one pickle.
#[derive(Debug)]
pub(in super::super) struct Heap<'a> {
    nodes: Vec<Node<'a>>,
    limit: usize,
}

impl<'a> Heap<'a> {
    /// Python spends at least two bytes on each container, class or string, so a pickle of `length` bytes that makes
    /// more nodes was not written by Python.
    pub(super) fn for_pickle(length: usize) -> Self {
        Self { nodes: Vec::new(), limit: length / 2 + 16 }
    }

    pub(super) fn add(&mut self, node: Node<'a>) -> Result<Value, Fault> {
        if self.nodes.len() >= self.limit {
            return Err(Fault::invalid(
                "pickle",
                format!("at most {} objects for its length", self.limit),
                "more",
            ));
        }
        let at = u32::try_from(self.nodes.len())
            .map_err(|_| Fault::invalid("pickle", "at most 4 billion objects", "more"))?;
        self.nodes.push(node);
        Ok(Value::Node(at))
    }

    pub(super) fn node_mut(&mut self, value: Value) -> Option<&mut Node<'a>> {
        match value {
            Value::Node(at) => self.nodes.get_mut(at as usize),
            _ => None,
        }
    }

    pub(in super::super) fn node(&self, value: Value) -> Option<&Node<'a>> {
        match value {
            Value::Node(at) => self.nodes.get(at as usize),
            _ => None,
        }
    }

    pub(in super::super) fn text(&self, value: Value) -> Option<&'a str> {
        match self.node(value) {
            Some(Node::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(in super::super) fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.node(value) {
            Some(Node::Tuple(items)) => Some(items),
            _ => None,
        }
    }

    pub(in super::super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match self.node(value) {
            Some(Node::Dict(items)) => Some(items),
            _ => None,
        }
    }

    pub(in super::super) fn storage(&self, at: u32) -> Option<Storage<'a>> {
        match self.nodes.get(at as usize) {
            Some(Node::Storage(storage)) => Some(**storage),
            _ => None,
        }
    }

    /// Every storage that the pickle mentions.
    pub(in super::super) fn storages(&self) -> impl Iterator<Item = Storage<'a>> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Storage(storage) => Some(**storage),
            _ => None,
        })
    }

    /// A tuple of sizes.
    pub(in super::super) fn sizes(&self, at: u32) -> Option<Vec<usize>> {
        self.tuple(Value::Node(at))?
            .iter()
            .map(|item| match item {
                Value::Int(n) => usize::try_from(*n).ok(),
                _ => None,
            })
            .collect()
    }

    /// What a value is, for a message.
    pub(in super::super) fn describe(&self, value: Value) -> String {
        match value {
            Value::None => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Node(_) => match self.node(value) {
                Some(Node::Text(text)) => format!("{:?}", abridged(text)),
                Some(Node::Bytes(bytes)) => format!("{} bytes", bytes.len()),
                Some(Node::Tuple(items)) => format!("a tuple of {}", items.len()),
                Some(Node::List(items)) => format!("a list of {}", items.len()),
                Some(Node::Dict(items)) => format!("a dictionary of {}", items.len()),
                Some(Node::Global(global)) => format!("the name {global}"),
                Some(Node::Storage(_)) => "a storage".to_owned(),
                Some(Node::Tensor(_)) => "a tensor".to_owned(),
                Some(Node::Opaque(Some(class))) => match self.nodes.get(*class as usize) {
                    Some(Node::Global(global)) => format!("an object of {global}, not interpreted"),
                    _ => "an object, not interpreted".to_owned(),
                },
                Some(Node::Opaque(None)) => "an object, not interpreted".to_owned(),
                None => "nothing".to_owned(),
            },
        }
    }
}
