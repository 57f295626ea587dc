//! JPEG, to the bit as libjpeg-turbo decodes it, which is what Pillow and torchvision use.
//!
//! Baseline, extended sequential and progressive files with Huffman codes and 8 bits: the accurate integer transform,
//! triangle filters for halved chroma, and libjpeg's fixed-point colours. The pixels of `zune-jpeg` differ
//! enough to change the class that a network predicts for three ImageNet crops of two thousand.
//!
//! [`markers`] cuts the file into segments; [`tables`] and [`frame`] hold what they define; [`scan`] walks over the
//! blocks, which [`sequential`] and [`progressive`] decode from [`bits`] and [`huffman`] codes; [`transform`] makes
//! samples of coefficients ([`dct`]), [`upsample`] and [`colour`] pixels of samples.
//!
//! # Fidelity
//! libjpeg warns and goes on where data are damaged: bits that are no code, data that end before their scan does,
//! restart markers out of order, components without a scan. So does this decoder; [`decode`] gives the first damage
//! beside the image, for those who want none. Three things differ. A file without its end marker is refused, as
//! Pillow and torchvision refuse it: half an image must not pass for a whole one. libjpeg smooths the blocks of
//! progressive files whose later scans are missing; here they are shown as they are. And coefficients that no image
//! has, which damage makes, wrap around elsewhere than in its vector code.

mod bits;
pub(crate) mod colour;
pub(crate) mod dct;
mod fault;
mod frame;
mod huffman;
mod markers;
pub(crate) mod plane;
mod progressive;
mod scan;
mod sequential;
mod tables;
mod transform;
pub(crate) mod upsample;

use std::fmt::Display;

pub(in crate::image) use self::fault::Fault;
use self::{
    colour::{Colour, assemble},
    fault::Outcome,
    frame::{Frame, Header},
    markers::{DAC, DHT, EOI, JPG, Markers, SOF0, SOF15, SOS},
    scan::Scan,
    tables::Tables,
    transform::transform,
};
use super::Image;
use crate::{Error, Result};

/// The most scans a file may have; real ones have a dozen.
const MAX_SCANS: usize = 100;
/// A scan of a few bytes can pass over the whole image, so the coefficients that all scans pass over are bounded by
/// the size of the file. A blank page takes one bit per block, and its ten scans pass over two hundred coefficients
/// of each: 1,600 per byte.
const MAX_WORK_PER_BYTE: usize = 4096;
/// The sample of a block without coefficients.
const MIDDLE: u8 = 128;
/// Work that is done for any file, whatever its size.
const FREE_WORK: usize = 1 << 26;

/// Decodes a JPEG, and gives the damage that was read over; `check` sees width and height before anything is
/// allocated for them.
pub(super) fn decode(
    bytes: &[u8],
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(&dyn Display) -> Error,
) -> Result<(Image, Option<Fault>)> {
    let (mut markers, mut tables) = (Markers::new(bytes), Tables::default());
    let header = read_header(&mut markers, &mut tables).map_err(|fault| unsound(&fault))?;
    let (width, height) = (header.width, header.height);
    check(width, height)?;
    let (pixels, damage) =
        read_image(header, &mut markers, &mut tables).map_err(|fault| unsound(&fault))?;
    Ok((Image::new(width, height, pixels)?, damage))
}

/// Everything up to the frame header.
fn read_header(markers: &mut Markers, tables: &mut Tables) -> Outcome<Header> {
    loop {
        match markers.next()? {
            (EOI | SOS, _) => return Err(Fault::Missing("frame header before the scans")),
            (code, body) if is_frame(code) => return Header::read(code, body),
            (code, body) => tables.read(code, body)?,
        }
    }
}

fn is_frame(code: u8) -> bool {
    matches!(code, SOF0..=SOF15) && !matches!(code, DHT | JPG | DAC)
}

/// The scans, and the pixels they add up to.
fn read_image(
    header: Header,
    markers: &mut Markers,
    tables: &mut Tables,
) -> Outcome<(Vec<u8>, Option<Fault>)> {
    let bytes = markers.len();
    header.check_room(bytes)?;
    let mut frame = header.frame()?;
    let limit = FREE_WORK + bytes.saturating_mul(MAX_WORK_PER_BYTE);
    let (mut scans, mut work) = (0, 0);
    loop {
        match markers.next()? {
            (EOI, _) => break,
            (SOS, body) => {
                scans += 1;
                if scans > MAX_SCANS {
                    return Err(Fault::TooManyScans(MAX_SCANS));
                }
                let scan = Scan::read(body, &frame)?;
                work += scan.work(&frame);
                if work > limit {
                    return Err(Fault::TooMuchWork { work, limit, bytes });
                }
                scan.decode(&mut frame, tables, markers)?;
            }
            (code, _) if is_frame(code) => return Err(Fault::Unsupported("a second frame")),
            (code, body) => tables.read(code, body)?,
        }
    }
    if scans == 0 {
        return Err(Fault::Missing("scan"));
    }
    let pixels = finish(&mut frame, tables);
    Ok((pixels, frame.damage))
}

fn finish(frame: &mut Frame, tables: &Tables) -> Vec<u8> {
    if frame.components.iter().any(|component| !component.complete) {
        frame.note(Fault::Missing("scan for a component"));
    }
    for component in &mut frame.components {
        if frame.progressive {
            transform(component, 0, component.blocks.1);
        } else if !component.complete {
            component.plane.data.fill(MIDDLE);
        }
    }
    let ids: Vec<u8> = frame.components.iter().map(|component| component.id).collect();
    let parts: Vec<_> = frame.components.iter().map(|part| (&part.plane, part.enlarge)).collect();
    assemble(&parts, Colour::of(tables, &ids), (frame.width, frame.height))
}
