//! The frame: size, components, and where their blocks are kept.
//!
//! Blocks are kept eight side by side: the `k`th coefficients of all eight lie together, which is how [`super::dct`]
//! takes them.

use super::dct::LANES;
use super::fault::{Fault, Outcome};
use super::markers::{SOF0, SOF1, SOF2};
use super::plane::Plane;
use super::upsample::Enlarge;

/// Eight neighbouring blocks, `[coefficient][block]`.
pub(super) type Group = [[i16; LANES]; 64];

/// The frame header and what the scans have filled in.
pub(super) struct Frame {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) progressive: bool,
    pub(super) components: Vec<Component>,
    /// Units of an interleaved scan, across and down.
    pub(super) units: (usize, usize),
    /// The first damage that was read over.
    pub(super) damage: Option<Fault>,
}

impl Frame {
    /// Remembers what is wrong, unless something else was before.
    pub(super) fn note(&mut self, fault: Fault) {
        self.damage.get_or_insert(fault);
    }
}

/// One component, such as luma.
pub(super) struct Component {
    pub(super) id: u8,
    /// Sampling factors, 1 to 4.
    pub(super) h: usize,
    pub(super) v: usize,
    /// Which quantisation table.
    pub(super) table: usize,
    /// The steps in force at the component's first scan.
    pub(super) steps: Option<[u16; 64]>,
    /// Whether a scan has brought something for every block: constant coefficients, if not all.
    pub(super) complete: bool,
    /// Blocks that hold samples, across and down.
    pub(super) blocks: (usize, usize),
    /// Groups of one row of blocks.
    pub(super) groups: usize,
    /// Coefficients: of the whole component in a progressive image, of one row of units in a sequential one.
    pub(super) coefficients: Vec<Group>,
    pub(super) plane: Plane,
    pub(super) enlarge: Enlarge,
}

/// What a frame header says, before anything is allocated for it.
pub(super) struct Header {
    pub(super) width: usize,
    pub(super) height: usize,
    progressive: bool,
    /// Identifier, sampling factors, quantisation table.
    components: Vec<(u8, usize, usize, usize)>,
}

impl Header {
    pub(super) fn read(code: u8, body: &[u8]) -> Outcome<Self> {
        let damaged = Fault::Damaged("frame header");
        let progressive = match code {
            SOF0 | SOF1 => false,
            SOF2 => true,
            0xc9..=0xcb | 0xcd..=0xcf => return Err(Fault::Unsupported("arithmetic coding")),
            0xc3 => return Err(Fault::Unsupported("lossless coding")),
            _ => return Err(Fault::Unsupported("hierarchical coding")),
        };
        let &[precision, h1, h0, w1, w0, count, ref rest @ ..] = body else { return Err(damaged) };
        if precision != 8 {
            return Err(Fault::Unsupported("a precision other than 8 bits"));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(Fault::Unsupported("a number of components other than 1, 3 and 4"));
        }
        let (rows, []) = rest.as_chunks::<3>() else { return Err(damaged) };
        if rows.len() != usize::from(count) {
            return Err(damaged);
        }
        let mut components = Vec::with_capacity(rows.len());
        for &[id, sampling, table] in rows {
            let (h, v) = (usize::from(sampling >> 4), usize::from(sampling & 15));
            if !(1..=4).contains(&h) || !(1..=4).contains(&v) || table > 3 {
                return Err(damaged);
            }
            components.push((id, h, v, usize::from(table)));
        }
        Ok(Self {
            width: usize::from(u16::from_be_bytes([w1, w0])),
            height: usize::from(u16::from_be_bytes([h1, h0])),
            progressive,
            components,
        })
    }

    /// The largest sampling factors, across and down.
    fn max_sampling(&self) -> (usize, usize) {
        let largest =
            |(h, v): (usize, usize), c: &(u8, usize, usize, usize)| (h.max(c.1), v.max(c.2));
        self.components.iter().fold((1, 1), largest)
    }

    /// Samples of a component with these factors, across and down.
    fn samples(&self, h: usize, v: usize) -> (usize, usize) {
        let (max_h, max_v) = self.max_sampling();
        ((self.width * h).div_ceil(max_h), (self.height * v).div_ceil(max_v))
    }

    /// Refuses a frame that the `bytes` after it cannot hold, before anything is allocated for it.
    ///
    /// Runs of empty blocks, thousands in a few bits, exist only for the bands of progressive scans. A constant
    /// coefficient is always coded by block: with a Huffman code, which has a bit at least, or with one bit that
    /// refines it. Each component needs a scan of them, so a progressive image has a bit a block or more; a
    /// sequential one has two, because the others end with a code too. A plain white page comes down to that, so
    /// nothing that can be decoded is refused.
    pub(super) fn check_room(&self, bytes: usize) -> Outcome<()> {
        let blocks = self.components.iter().map(|&(_, h, v, _)| {
            let (across, down) = self.samples(h, v);
            across.div_ceil(8) * down.div_ceil(8)
        });
        let blocks: usize = blocks.sum();
        let bits = if self.progressive { blocks } else { 2 * blocks };
        if bits.div_ceil(8) > bytes { Err(Fault::TooManyBlocks { blocks, bytes }) } else { Ok(()) }
    }

    /// Makes room for the image.
    pub(super) fn frame(self) -> Outcome<Frame> {
        let (max_h, max_v) = self.max_sampling();
        let Self { width, height, progressive, ref components } = self;
        let units = (width.div_ceil(8 * max_h), height.div_ceil(8 * max_v));
        let components = components
            .iter()
            .map(|&(id, h, v, table)| {
                let size = self.samples(h, v);
                let enlarge = Enlarge::new((h, max_h), (v, max_v), size.0)
                    .ok_or(Fault::Unsupported("a fractional ratio of sampling factors"))?;
                let groups = (units.0 * h).div_ceil(LANES);
                let kept_rows = if progressive { units.1 * v } else { v };
                Ok(Component {
                    id,
                    h,
                    v,
                    table,
                    steps: None,
                    complete: false,
                    blocks: (size.0.div_ceil(8), size.1.div_ceil(8)),
                    groups,
                    coefficients: vec![[[0; LANES]; 64]; groups * kept_rows],
                    plane: Plane::with_stride(size, groups * LANES * 8, units.1 * v * 8),
                    enlarge,
                })
            })
            .collect::<Outcome<_>>()?;
        Ok(Frame { width, height, progressive, components, units, damage: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 17 wide, 9 high, chroma halved across and down.
    const HEADER: [u8; 15] = [8, 0, 9, 0, 17, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1];

    #[test]
    fn components_are_as_large_as_their_sampling_says() {
        let frame = Header::read(SOF2, &HEADER).unwrap().frame().unwrap();
        assert_eq!((frame.width, frame.height, frame.units), (17, 9, (2, 1)));
        let [y, cb, _] = &frame.components[..] else { panic!() };
        assert_eq!((y.blocks, cb.blocks), ((3, 2), (2, 1)));
        assert_eq!((y.plane.width, cb.plane.width, cb.plane.height), (17, 9, 5));
        assert_eq!((y.coefficients.len(), cb.coefficients.len()), (2, 1));
    }

    #[test]
    fn headers_that_cannot_be_are_refused() {
        for (place, value) in [(0, 12), (5, 2), (5, 4), (7, 0x51), (7, 0x20), (8, 4)] {
            let mut body = HEADER;
            body[place] = value;
            assert!(Header::read(SOF0, &body).is_err(), "{place}");
        }
        let mut body = HEADER;
        body[7] = 0x33;
        body[10] = 0x22;
        assert!(Header::read(SOF0, &body).unwrap().frame().is_err());
        assert_eq!(
            Header::read(0xc9, &HEADER).err(),
            Some(Fault::Unsupported("arithmetic coding"))
        );
    }
}
