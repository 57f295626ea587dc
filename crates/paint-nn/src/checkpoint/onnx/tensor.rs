//! An array of a graph: its header, and its elements in one of six places.

use paint_files::{Budget, Dtype, Fault, Source, element_count};

use super::super::array::{Array, View, row_major};
use super::external::{Beside, Place};
use super::proto::entry;
use super::wire::{Fields, Value};

/// `data_location` of elements in another file.
const EXTERNAL: i64 = 1;
/// More than any network has.
const MOST_AXES: usize = 32;

/// The header of an array, and where its elements are.
#[derive(Debug, Default)]
pub(super) struct Tensor {
    pub name: String,
    dims: Vec<i64>,
    data_type: i64,
    /// Little-endian elements.
    raw: Option<Source>,
    /// Packed elements by the field they stand in.
    packed: Option<(Packed, Source)>,
    place: Option<Place>,
}

/// Fields of elements by their type, where `raw_data` is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packed {
    Float,
    Double,
    /// Everything up to 32 bits that has no field of its own; of the 16-bit floats, their bits.
    Int32,
    Int64,
    /// Also 32-bit ones.
    Uint64,
}

impl Tensor {
    pub(super) fn parse(mut fields: Fields, budget: &mut Budget) -> Result<Self, Fault> {
        let mut tensor = Self::default();
        let mut place: Vec<(String, String)> = Vec::new();
        let mut is_external = false;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => {
                    value.ints(&mut tensor.dims, "dims", budget)?;
                    if tensor.dims.len() > MOST_AXES {
                        let expected = format!("at most {MOST_AXES} axes");
                        return Err(Fault::invalid("dims", expected, tensor.dims.len()));
                    }
                }
                2 => tensor.data_type = value.int("data_type")?,
                3 => {
                    return Err(Fault::Refused {
                        what: "field",
                        name: "segment".to_owned(),
                        why: "arrays in several parts are not read",
                    });
                }
                4 => tensor.pack(Packed::Float, value)?,
                5 => tensor.pack(Packed::Int32, value)?,
                7 => tensor.pack(Packed::Int64, value)?,
                8 => tensor.name = value.text("name of a tensor", budget)?,
                9 if tensor.raw.is_some() => return Err(twice("raw_data")),
                9 => tensor.raw = Some(value.bytes("raw_data")?),
                10 => tensor.pack(Packed::Double, value)?,
                11 => tensor.pack(Packed::Uint64, value)?,
                13 => {
                    let entry = entry(value.message("external_data")?)?;
                    if place.iter().any(|(key, _)| *key == entry.0) {
                        return Err(twice(&entry.0));
                    }
                    budget.charge("external_data", entry.1.len() as u64)?;
                    place.extend(Place::KEYS.contains(&entry.0.as_str()).then_some(entry));
                }
                14 => is_external = value.int("data_location")? == EXTERNAL,
                _ => {}
            }
        }
        if is_external {
            let name = &tensor.name;
            tensor.place = Some(Place::parse(&place).map_err(|fault| fault.in_array(name))?);
        }
        Ok(tensor)
    }

    fn pack(&mut self, kind: Packed, value: Value) -> Result<(), Fault> {
        if self.packed.is_some() {
            return Err(twice("data of a tensor"));
        }
        self.packed = Some((kind, value.bytes("data of a tensor")?));
        Ok(())
    }

    /// The file beside the graph that has the elements.
    pub(super) fn file(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.location.as_str())
    }

    /// The type of the elements; none for text, complex numbers and those of less than a byte.
    pub(super) fn dtype(&self) -> Option<Dtype> {
        Some(match self.data_type {
            1 => Dtype::F32,
            2 => Dtype::U8,
            3 => Dtype::I8,
            4 => Dtype::U16,
            5 => Dtype::I16,
            6 => Dtype::I32,
            7 => Dtype::I64,
            9 => Dtype::Bool,
            10 => Dtype::F16,
            11 => Dtype::F64,
            12 => Dtype::U32,
            13 => Dtype::U64,
            16 => Dtype::Bf16,
            _ => return None,
        })
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.dtype(), Some(Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F64))
    }

    /// The number of the type of the elements, for messages.
    pub(super) fn kind(&self) -> String {
        format!("elements of ONNX's type {}", self.data_type)
    }

    pub(super) fn shape(&self) -> Result<Vec<usize>, Fault> {
        let axis = |&n: &i64| {
            usize::try_from(n).map_err(|_| {
                Fault::invalid("dims", "no negative number", format!("{:?}", self.dims))
            })
        };
        self.dims.iter().map(axis).collect()
    }

    pub(super) fn read(
        &self,
        beside: &mut Beside<'_>,
        budget: &mut Budget,
    ) -> Result<Array, Fault> {
        let dtype = self.dtype().ok_or_else(|| {
            Fault::invalid("data_type", "a number type of 8 to 64 bits", self.data_type)
        })?;
        let shape = self.shape()?;
        let bytes = element_count(&shape).and_then(|n| n.checked_mul(dtype.size()));
        let overflow = || Fault::invalid("dims", "a countable number", format!("{shape:?}"));
        let bytes = bytes.ok_or_else(overflow)? as u64;
        let storage = &match (&self.place, &self.raw, &self.packed) {
            (Some(place), ..) => beside.open(place, bytes)?,
            (None, Some(raw), _) => raw.clone(),
            (None, None, Some((kind, packed))) => unpacked(*kind, packed, dtype, budget)?,
            (None, None, None) => Source::from(Vec::new()),
        };
        if storage.len() != bytes {
            let expected = format!("{bytes} bytes of {} for {shape:?}", dtype.name());
            return Err(Fault::invalid("data", expected, format!("{} bytes", storage.len())));
        }
        View { storage, dtype, offset: 0, shape: &shape, strides: &row_major(&shape) }.read(budget)
    }
}

/// Packed elements as little-endian ones.
fn unpacked(
    kind: Packed,
    packed: &Source,
    dtype: Dtype,
    budget: &mut Budget,
) -> Result<Source, Fault> {
    let fits = match kind {
        Packed::Float => dtype == Dtype::F32,
        Packed::Double => dtype == Dtype::F64,
        Packed::Int64 => dtype == Dtype::I64,
        Packed::Uint64 => matches!(dtype, Dtype::U64 | Dtype::U32),
        Packed::Int32 => dtype.size() <= 2 || dtype == Dtype::I32,
    };
    if !fits {
        let expected = format!("the field of {}", dtype.name());
        return Err(Fault::invalid("data of a tensor", expected, format!("{kind:?}")));
    }
    if matches!(kind, Packed::Float | Packed::Double) {
        return Ok(packed.clone());
    }
    // A byte is at least one element.
    budget.charge("the array", packed.len().saturating_mul(dtype.size() as u64))?;
    let mut numbers = Fields::new(packed.clone());
    let mut bytes = Vec::new();
    while !numbers.is_at_end() {
        // Two's complement: the low bytes of a narrower number are its own.
        bytes.extend_from_slice(&numbers.varint()?.to_le_bytes()[..dtype.size()]);
    }
    Ok(Source::from(bytes))
}

fn twice(name: &str) -> Fault {
    Fault::Duplicate { name: name.to_owned() }
}
