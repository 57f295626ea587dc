//! JPEG, to the bit as libjpeg-turbo decodes it, which is what Pillow and torchvision use.
//!
//! Baseline, extended sequential and progressive files with Huffman codes and 8 bits: the accurate integer transform,
//! triangle filters for halved chroma, and libjpeg's fixed-point colours. The pixels of `zune-jpeg` differ
//! enough to change the class that a network predicts for three ImageNet crops of two thousand.
//!
//! [`markers`] cuts the file into segments; [`tables`] and [`frame`] hold what they define; [`scan`] walks over the blocks,
//! which [`sequential`] and [`progressive`] decode from [`bits`] and [`huffman`] codes; [`transform`] makes samples of
//! coefficients ([`dct`]), [`upsample`] and [`colour`] pixels of samples.
//!
//! # Fidelity
//! libjpeg warns and goes on where data are damaged; here that is an error, as is an end before the end marker (Pillow's default too).
//! It smooths blocks of progressive files whose later scans are missing; here they are shown as they are. It makes grey of
//! a component without a scan of its constant coefficients; here that is an error, because what a file can make us allocate is
//! bounded by the bits that such a scan must have ([`frame`]).

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

use self::{
    colour::{Colour, assemble},
    fault::{Fault, Outcome},
    frame::{Frame, Header},
    markers::{DAC, DHT, EOI, JPG, Markers, SOF0, SOF15, SOS},
    scan::Scan,
    tables::Tables,
    transform::transform,
};
use super::Image;
use crate::{Error, Result};

/// The most scans of a file: a scan of a few bytes can pass over the whole image, and real files have a dozen.
const MAX_SCANS: usize = 100;

/// Decodes a JPEG; `check` sees width and height before anything is allocated for them.
pub(super) fn decode(
    bytes: &[u8],
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(&dyn Display) -> Error,
) -> Result<Image> {
    let (mut markers, mut tables) = (Markers::new(bytes), Tables::default());
    let header = read_header(&mut markers, &mut tables).map_err(|fault| unsound(&fault))?;
    let (width, height) = (header.width, header.height);
    check(width, height)?;
    let pixels = read_image(header, &mut markers, &mut tables).map_err(|fault| unsound(&fault))?;
    Image::new(width, height, pixels)
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
fn read_image(header: Header, markers: &mut Markers, tables: &mut Tables) -> Outcome<Vec<u8>> {
    header.check_room(markers.len())?;
    let mut frame = header.frame()?;
    let mut scans = 0;
    loop {
        match markers.next()? {
            (EOI, _) => break,
            (SOS, body) => {
                scans += 1;
                if scans > MAX_SCANS {
                    return Err(Fault::TooManyScans(MAX_SCANS));
                }
                Scan::read(body, &frame)?.decode(&mut frame, tables, markers)?;
            }
            (code, _) if is_frame(code) => return Err(Fault::Unsupported("a second frame")),
            (code, body) => tables.read(code, body)?,
        }
    }
    finish(&mut frame, tables)
}

fn finish(frame: &mut Frame, tables: &Tables) -> Outcome<Vec<u8>> {
    if frame.components.iter().any(|component| !component.complete) {
        return Err(Fault::Missing("scan for a component"));
    }
    if frame.progressive {
        for component in &mut frame.components {
            transform(component, 0, component.blocks.1);
        }
    }
    let ids: Vec<u8> = frame.components.iter().map(|component| component.id).collect();
    let parts: Vec<_> = frame.components.iter().map(|part| (&part.plane, part.enlarge)).collect();
    Ok(assemble(&parts, Colour::of(tables, &ids), (frame.width, frame.height)))
}
