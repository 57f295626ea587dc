//! A pickle machine that can execute nothing.
//!
//! A pickle is a program for a stack machine. This one knows the instructions that Python writes for data; those that
//! no `torch.save` needs are refused by name. Names of classes and functions are text here ([`globals`] says which
//! are understood), so there is nothing that a file could call.

mod globals;
mod value;

use std::collections::BTreeMap;

use paint_files::{Cursor, Fault, utf8};

pub(super) use value::{Heap, Node, Storage, Tensor, Value};

/// What one pickle left behind.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    pub heap: Heap<'a>,
    pub root: Value,
    /// Bytes up to and including the final instruction.
    pub length: usize,
}

/// Runs the pickle at the start of `bytes`.
pub(super) fn load(bytes: &[u8]) -> Result<Pickle<'_>, Fault> {
    let mut machine = Machine {
        input: Cursor::new(bytes),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        heap: Heap::for_pickle(bytes.len()),
        empty_tuple: None,
    };
    let root = loop {
        let at = machine.input.position();
        let step = machine.step().map_err(|fault| match fault {
            Fault::Invalid { what, expected, found } => {
                Fault::Invalid { what: format!("{what} (pickle byte {at})"), expected, found }
            }
            other => other,
        })?;
        if let Some(root) = step {
            break root;
        }
    };
    Ok(Pickle { heap: machine.heap, root, length: machine.input.position() })
}

struct Machine<'a> {
    input: Cursor<'a>,
    stack: Vec<Value>,
    /// Heights of the stack where a sequence of items begins.
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value>,
    heap: Heap<'a>,
    /// Python does not remember the empty tuple, so it comes often.
    empty_tuple: Option<Value>,
}

impl<'a> Machine<'a> {
    /// One instruction; the last one gives the result.
    fn step(&mut self) -> Result<Option<Value>, Fault> {
        let opcode = self.input.u8("pickle instruction")?;
        match opcode {
            b'.' => return self.pop().map(Some),
            0x80 => self.protocol()?,
            0x95 => {
                let frame = self.input.u64("pickle frame")?;
                if frame > self.input.left() as u64 {
                    return Err(Fault::Truncated {
                        what: "pickle frame",
                        needed: frame,
                        available: self.input.left() as u64,
                    });
                }
            }
            b'(' => self.marks.push(self.stack.len()),
            b'0' => {
                self.pop()?;
            }
            b'1' => {
                self.pop_to_mark()?;
            }
            b'2' => self.stack.push(self.top()?),
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'I' | b'J' | b'K' | b'M' | b'L' | 0x8a | 0x8b | b'G' => self.number(opcode)?,
            b'X' | 0x8c | 0x8d | b'T' | b'U' | b'B' | b'C' | 0x8e | 0x96 => self.string(opcode)?,
            b']' | 0x8f => self.push(Node::List(Vec::new()))?,
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b')' => self.push_empty_tuple()?,
            b't' | 0x91 => {
                let items = self.pop_to_mark()?;
                self.push(Node::Tuple(items))?;
            }
            0x85..=0x87 => {
                let from =
                    self.height().checked_sub(usize::from(opcode - 0x84)).ok_or_else(underflow)?;
                let items = self.stack.split_off(self.floor() + from);
                self.push(Node::Tuple(items))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_to_mark()?;
                self.extend(items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.set(&items)?;
            }
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(opcode)?,
            b'c' | 0x93 | b'R' | 0x81 | 0x92 | b'b' | b'Q' => self.object(opcode)?,
            other => return Err(refused(other)),
        }
        Ok(None)
    }

    fn protocol(&mut self) -> Result<(), Fault> {
        match self.input.u8("pickle protocol")? {
            0..=5 => Ok(()),
            other => Err(Fault::invalid("pickle protocol", "0 to 5", other)),
        }
    }

    fn number(&mut self, opcode: u8) -> Result<(), Fault> {
        let what = "pickled number";
        let value =
            match opcode {
                b'J' => Value::Int(i64::from(i32::from_le_bytes(self.input.array(what)?))),
                b'K' => Value::Int(i64::from(self.input.u8(what)?)),
                b'M' => Value::Int(i64::from(self.input.u16(what)?)),
                b'G' => Value::Float(f64::from_be_bytes(self.input.array(what)?)),
                0x8a | 0x8b => {
                    let length = if opcode == 0x8a {
                        u32::from(self.input.u8(what)?)
                    } else {
                        self.input.u32(what)?
                    };
                    let bytes = self.input.take_long(u64::from(length), what)?;
                    match little_endian(bytes) {
                        Some(n) => Value::Int(n),
                        // Beyond 64 bits no size and no count: kept as its bytes, which is enough for a magic number.
                        None => self.heap.add(Node::Bytes(bytes))?,
                    }
                }
                _ => {
                    let line = utf8(self.input.line(what)?, what)?;
                    match (opcode, line) {
                        (b'I', "00") => Value::Bool(false),
                        (b'I', "01") => Value::Bool(true),
                        _ => {
                            let digits = line.strip_suffix('L').unwrap_or(line);
                            Value::Int(digits.parse().map_err(|_| {
                                Fault::invalid(what, "64 bits", format!("{line:?}"))
                            })?)
                        }
                    }
                }
            };
        self.stack.push(value);
        Ok(())
    }

    fn string(&mut self, opcode: u8) -> Result<(), Fault> {
        let what = "pickled string";
        let length = match opcode {
            0x8c | b'U' | b'C' => u64::from(self.input.u8(what)?),
            b'X' | b'T' | b'B' => u64::from(self.input.u32(what)?),
            _ => self.input.u64(what)?,
        };
        let bytes = self.input.take_long(length, what)?;
        let node = match opcode {
            b'X' | 0x8c | 0x8d => Node::Text(utf8(bytes, what)?),
            // Python 2 wrote text and bytes alike.
            b'T' | b'U' => std::str::from_utf8(bytes).map_or(Node::Bytes(bytes), Node::Text),
            _ => Node::Bytes(bytes),
        };
        self.push(node)
    }

    fn remember(&mut self, opcode: u8) -> Result<(), Fault> {
        let what = "pickle memo";
        let key = match opcode {
            b'q' | b'h' => u32::from(self.input.u8(what)?),
            0x94 => u32::try_from(self.memo.len())
                .map_err(|_| Fault::invalid(what, "at most 4 billion", "more"))?,
            _ => self.input.u32(what)?,
        };
        if matches!(opcode, b'h' | b'j') {
            let value = *self
                .memo
                .get(&key)
                .ok_or_else(|| Fault::invalid(what, "an entry", format!("none at {key}")))?;
            self.stack.push(value);
        } else {
            let value = self.top()?;
            self.memo.insert(key, value);
        }
        Ok(())
    }

    fn object(&mut self, opcode: u8) -> Result<(), Fault> {
        let value = match opcode {
            b'c' => {
                let module = utf8(self.input.line("Python module")?, "Python module")?;
                let name = utf8(self.input.line("Python name")?, "Python name")?;
                globals::named(&mut self.heap, module, name)?
            }
            0x93 => {
                let name = self.pop()?;
                let module = self.pop()?;
                let (Some(module), Some(name)) = (self.heap.text(module), self.heap.text(name))
                else {
                    return Err(Fault::invalid(
                        "Python name",
                        "two strings",
                        self.heap.describe(name),
                    ));
                };
                globals::named(&mut self.heap, module, name)?
            }
            b'R' | 0x81 => {
                let arguments = self.pop()?;
                let callee = self.pop()?;
                globals::called(&mut self.heap, callee, arguments)?
            }
            0x92 => {
                let _keywords = self.pop()?;
                let arguments = self.pop()?;
                let class = self.pop()?;
                globals::called(&mut self.heap, class, arguments)?
            }
            b'Q' => {
                let id = self.pop()?;
                globals::persistent(&mut self.heap, id)?
            }
            // The state of an object. For a dictionary it is what hangs on it (`_metadata`); elsewhere a placeholder.
            _ => {
                self.pop()?;
                let target = self.top()?;
                return match self.heap.node(target) {
                    Some(Node::Dict(_) | Node::Opaque(_) | Node::Tensor(_)) => Ok(()),
                    _ => {
                        Err(Fault::invalid("object state", "an object", self.heap.describe(target)))
                    }
                };
            }
        };
        self.stack.push(value);
        Ok(())
    }

    fn extend(&mut self, items: Vec<Value>) -> Result<(), Fault> {
        let target = self.top()?;
        match self.heap.node_mut(target) {
            Some(Node::List(list)) => list.extend(items),
            Some(Node::Opaque(_)) => {}
            _ => {
                return Err(Fault::invalid(
                    "appended items",
                    "a list before them",
                    self.heap.describe(target),
                ));
            }
        }
        Ok(())
    }

    fn set(&mut self, items: &[Value]) -> Result<(), Fault> {
        let target = self.top()?;
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(Fault::invalid("dictionary items", "pairs", items.len()));
        };
        match self.heap.node_mut(target) {
            Some(Node::Dict(dict)) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
            Some(Node::Opaque(_)) => {}
            _ => {
                return Err(Fault::invalid(
                    "dictionary items",
                    "a dictionary before them",
                    self.heap.describe(target),
                ));
            }
        }
        Ok(())
    }

    fn push(&mut self, node: Node<'a>) -> Result<(), Fault> {
        let value = self.heap.add(node)?;
        self.stack.push(value);
        Ok(())
    }

    fn push_empty_tuple(&mut self) -> Result<(), Fault> {
        let value = match self.empty_tuple {
            Some(value) => value,
            None => self.heap.add(Node::Tuple(Vec::new()))?,
        };
        self.empty_tuple = Some(value);
        self.stack.push(value);
        Ok(())
    }

    /// Items above the last mark are all that an instruction may take.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn height(&self) -> usize {
        self.stack.len() - self.floor()
    }

    fn pop(&mut self) -> Result<Value, Fault> {
        if self.height() == 0 {
            return Err(underflow());
        }
        self.stack.pop().ok_or_else(underflow)
    }

    fn top(&self) -> Result<Value, Fault> {
        if self.height() == 0 {
            return Err(underflow());
        }
        self.stack.last().copied().ok_or_else(underflow)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, Fault> {
        let mark = self.marks.pop().ok_or_else(|| Fault::invalid("pickle", "a mark", "none"))?;
        Ok(self.stack.split_off(mark))
    }
}

fn underflow() -> Fault {
    Fault::invalid("pickle", "a value on the stack", "none")
}

/// A two's complement number of up to eight bytes.
fn little_endian(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(wide))
}

fn refused(opcode: u8) -> Fault {
    let name = match opcode {
        b'i' => "INST",
        b'o' => "OBJ",
        0x82..=0x84 => "EXT",
        b'P' => "PERSID",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        b'F' => "FLOAT",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'l' => "LIST",
        b'd' => "DICT",
        b'p' => "PUT",
        b'g' => "GET",
        _ => {
            return Fault::invalid(
                "pickle instruction",
                "one that Python writes",
                format!("0x{opcode:02x}"),
            );
        }
    };
    Fault::Refused {
        what: "pickle instruction",
        name: name.to_owned(),
        why: "no torch.save writes it for weights",
    }
}
