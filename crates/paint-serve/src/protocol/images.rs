//! The images of a request as the batch that the model takes.

use super::base64;
use super::request::{Input, Request};
use crate::fault::Fault;
use crate::model::Model;
use paint_data::Image;
use paint_tensor::Tensor;
use rayon::prelude::*;

/// The name of the one input.
pub(super) const INPUT: &str = "images";

/// The batch of a request.
#[derive(Debug)]
pub(crate) struct Images {
    /// `[B, 3, H, W]` in [0, 1].
    pub(crate) batch: Tensor,
    /// `B`.
    pub(crate) count: usize,
}

/// What a client may send.
#[derive(Debug, Clone, Copy)]
enum Datatype {
    /// `[B, H, W, 3]`, any size.
    Uint8,
    /// `[B, 3, H, W]` in [0, 1] at the model's size.
    Fp32,
    /// `[B]` files.
    Bytes,
}

impl Datatype {
    fn of(name: &str) -> Result<Self, Fault> {
        match name {
            "UINT8" => Ok(Self::Uint8),
            "FP32" => Ok(Self::Fp32),
            "BYTES" => Ok(Self::Bytes),
            _ => Err(Fault::expected(
                "datatype of images",
                "UINT8, FP32 or BYTES",
                format!("{name:?}"),
            )),
        }
    }
}

/// The images of a request; `raw` lies behind its JSON. At most `most` images.
pub(crate) fn images(
    request: &Request,
    raw: &[u8],
    model: &Model,
    most: usize,
) -> Result<Images, Fault> {
    let [input] = &request.inputs[..] else {
        let found = format!("{} inputs", request.inputs.len());
        return Err(Fault::expected("inputs", format!("one, {INPUT:?}"), found));
    };
    if input.name != INPUT {
        return Err(Fault::expected(
            "inputs",
            format!("one, {INPUT:?}"),
            format!("{:?}", input.name),
        ));
    }
    let datatype = Datatype::of(&input.datatype)?;
    let shape = shape(input, datatype, model)?;
    let count = shape[0];
    if count == 0 || count > most {
        let expected = format!("1 to {most} in a request");
        return Err(Fault::expected("images", expected, count.to_string()));
    }
    let bytes = raw_bytes(input, raw)?;
    let batch = model.batch(count, |out| match datatype {
        Datatype::Uint8 => from_bytes(&uint8(input, bytes, &shape)?, &shape, model, out),
        Datatype::Fp32 => fp32(input, bytes, out),
        Datatype::Bytes => decoded(input, bytes, model, out),
    })?;
    Ok(Images { batch, count })
}

/// The shape, if a tensor of this type may have it.
fn shape(input: &Input, datatype: Datatype, model: &Model) -> Result<Vec<usize>, Fault> {
    let [height, width] = model.size;
    let shape: Vec<usize> =
        input.shape.iter().map(|side| usize::try_from(*side).unwrap_or(usize::MAX)).collect();
    let (fits, expected) = match (datatype, &shape[..]) {
        (Datatype::Uint8, [_, h, w, 3]) => {
            let side = 1..=paint_data::image::MAX_SIDE;
            (side.contains(h) && side.contains(w), "[B, H, W, 3]".to_owned())
        }
        (Datatype::Uint8, _) => (false, "[B, H, W, 3]".to_owned()),
        (Datatype::Fp32, shape) => {
            (shape.get(1..) == Some(&[3, height, width]), format!("[B, 3, {height}, {width}]"))
        }
        (Datatype::Bytes, shape) => (shape.len() == 1, "[B]".to_owned()),
    };
    if fits {
        return Ok(shape);
    }
    let what = format!("shape of {} images", input.datatype);
    Err(Fault::expected(&what, expected, format!("{:?}", input.shape)))
}

/// The raw bytes of the input, if it has some.
fn raw_bytes<'a>(input: &Input, raw: &'a [u8]) -> Result<Option<&'a [u8]>, Fault> {
    match (input.binary_size()?, &input.data) {
        (Some(size), None) if size == raw.len() as u64 => Ok(Some(raw)),
        (None, Some(_)) if raw.is_empty() => Ok(None),
        (Some(size), None) => {
            let found = format!("{} bytes behind the JSON", raw.len());
            Err(Fault::expected("binary_data_size", size.to_string(), found))
        }
        (size, data) => {
            let found = format!(
                "binary_data_size: {size:?}, data: {}, {} bytes behind the JSON",
                if data.is_some() { "given" } else { "none" },
                raw.len()
            );
            Err(Fault::expected("images", "either data or binary_data_size", found))
        }
    }
}

/// Elements of a shape; an overflow is more than any request holds.
fn elements(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product: usize, side| product.saturating_mul(*side))
}

fn same_length(expected: usize, unit: &str, found: usize) -> Result<(), Fault> {
    if expected == found {
        return Ok(());
    }
    Err(Fault::expected("images", format!("{expected} {unit}"), found.to_string()))
}

fn numbers(input: &Input) -> &[f32] {
    input.data.as_ref().map_or(&[], |data| &data.numbers)
}

fn uint8<'a>(
    input: &Input,
    bytes: Option<&'a [u8]>,
    shape: &[usize],
) -> Result<std::borrow::Cow<'a, [u8]>, Fault> {
    if let Some(bytes) = bytes {
        same_length(elements(shape), "bytes", bytes.len())?;
        return Ok(bytes.into());
    }
    same_length(elements(shape), "numbers", numbers(input).len())?;
    let byte = |number: &f32| {
        let is_byte = (0.0..=255.0).contains(number) && number.fract() == 0.0;
        let found = number.to_string();
        is_byte.then_some(*number as u8).ok_or_else(|| Fault::expected("images", "bytes", found))
    };
    Ok(numbers(input).iter().map(byte).collect::<Result<Vec<u8>, Fault>>()?.into())
}

fn from_bytes(bytes: &[u8], shape: &[usize], model: &Model, out: &mut [f32]) -> Result<(), Fault> {
    let (height, width) = (shape[1], shape[2]);
    let images: Vec<&[u8]> = bytes.chunks_exact(3 * height * width).collect();
    place_all(&images, model, out, |_, bytes, out| {
        model.place(Image::new(width, height, bytes.to_vec())?, out)
    })
}

/// Calls `place` with the number of each image, what it is made of and where it goes. Several share the threads; an error
/// is that of the first image that has one.
fn place_all<T: Sync>(
    images: &[T],
    model: &Model,
    out: &mut [f32],
    place: impl Fn(usize, &T, &mut [f32]) -> Result<(), Fault> + Sync,
) -> Result<(), Fault> {
    if let [only] = images {
        // It must not wait behind the many images of another request.
        return place(0, only, out);
    }
    let places = out.par_chunks_exact_mut(model.image_len());
    let work = images.par_iter().zip(places).enumerate();
    let done: Vec<_> = work.map(|(at, (image, out))| place(at, image, out)).collect();
    done.into_iter().collect()
}

fn fp32(input: &Input, bytes: Option<&[u8]>, out: &mut [f32]) -> Result<(), Fault> {
    if let Some(bytes) = bytes {
        same_length(4 * out.len(), "bytes", bytes.len())?;
        let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        out.iter_mut().zip(numbers).for_each(|(out, number)| *out = number);
    } else {
        same_length(out.len(), "numbers", numbers(input).len())?;
        out.copy_from_slice(numbers(input));
    }
    match out.iter().find(|pixel| !(0.0..=1.0).contains(*pixel)) {
        Some(pixel) => Err(Fault::expected("FP32 images", "numbers in [0, 1]", pixel.to_string())),
        None => Ok(()),
    }
}

fn decoded(
    input: &Input,
    bytes: Option<&[u8]>,
    model: &Model,
    out: &mut [f32],
) -> Result<(), Fault> {
    let count = out.len() / model.image_len();
    if let Some(bytes) = bytes {
        let files = elements_of(bytes, count)?;
        return place_all(&files, model, out, |at, file, out| {
            model.place_encoded(file, &name(at), out)
        });
    }
    let texts: &[String] = input.data.as_ref().map_or(&[], |data| &data.texts);
    same_length(count, "strings", texts.len())?;
    place_all(texts, model, out, |at, text, out| {
        let file = base64::decode(text)
            .ok_or_else(|| Fault::expected(&name(at), "a file in base64", "another string"))?;
        model.place_encoded(&file, &name(at), out)
    })
}

/// What errors call an image.
fn name(at: usize) -> String {
    format!("image {at} of the request")
}

/// The elements of a BYTES tensor, which has so many.
fn elements_of(bytes: &[u8], count: usize) -> Result<Vec<&[u8]>, Fault> {
    let mut rest = bytes;
    let mut files = Vec::with_capacity(count);
    for at in 0..count {
        let (file, after) = element(rest, &name(at))?;
        files.push(file);
        rest = after;
    }
    if rest.is_empty() {
        return Ok(files);
    }
    let found = format!("{} bytes more", rest.len());
    Err(Fault::expected("images", format!("{count} elements"), found))
}

/// The next element of a BYTES tensor: its length in four bytes, then its bytes.
fn element<'a>(bytes: &'a [u8], name: &str) -> Result<(&'a [u8], &'a [u8]), Fault> {
    let short = || {
        let found = format!("{} bytes", bytes.len());
        Fault::expected(name, "four bytes of length, and as many bytes as they say", found)
    };
    let (len, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(short)
}
