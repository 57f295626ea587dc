//! Blocks of progressive scans: constant coefficients or a band of the others, first their high bits, then one bit more
//! in each refinement.

use std::ops::RangeInclusive;

use super::bits::Bits;
use super::frame::Group;
use super::huffman::Huffman;
use super::scan::Coder;
use super::tables::ZIGZAG;

/// Constant coefficients without their `low` last bits.
pub(super) struct DcFirst<'a> {
    codes: Vec<&'a Huffman>,
    low: u8,
    last: [i32; 4],
}

impl<'a> DcFirst<'a> {
    pub(super) fn new(codes: Vec<&'a Huffman>, low: u8) -> Self {
        Self { codes, low, last: [0; 4] }
    }
}

impl Coder for DcFirst<'_> {
    fn block(&mut self, bits: &mut Bits, part: usize, group: &mut Group, lane: usize) {
        bits.refill();
        let size = bits.symbol(self.codes[part]);
        let last = &mut self.last[part];
        *last = last.wrapping_add(bits.magnitude(u32::from(size)));
        group[0][lane] = (*last << self.low) as i16;
    }

    fn restart(&mut self) {
        self.last = [0; 4];
    }
}

/// One more bit of the constant coefficients.
pub(super) struct DcRefine {
    bit: i16,
}

impl DcRefine {
    pub(super) fn new(low: u8) -> Self {
        Self { bit: 1 << low }
    }
}

impl Coder for DcRefine {
    fn block(&mut self, bits: &mut Bits, _: usize, group: &mut Group, lane: usize) {
        if bits.flag() {
            group[0][lane] |= self.bit;
        }
    }

    fn restart(&mut self) {}
}

/// A band of the other coefficients without their `low` last bits.
pub(super) struct AcFirst<'a> {
    codes: &'a Huffman,
    band: RangeInclusive<usize>,
    low: u8,
    /// Blocks to come, this one included, whose band is zero.
    empty_blocks: u32,
}

impl<'a> AcFirst<'a> {
    pub(super) fn new(codes: &'a Huffman, band: RangeInclusive<usize>, low: u8) -> Self {
        Self { codes, band, low, empty_blocks: 0 }
    }
}

impl Coder for AcFirst<'_> {
    fn block(&mut self, bits: &mut Bits, _: usize, group: &mut Group, lane: usize) {
        if self.empty_blocks > 0 {
            self.empty_blocks -= 1;
            return;
        }
        let mut k = *self.band.start();
        while k <= *self.band.end() {
            bits.refill();
            let symbol = bits.symbol(self.codes);
            let (run, size) = (symbol >> 4, u32::from(symbol & 15));
            k += usize::from(run);
            match (run, size) {
                (15, 0) => {}
                (_, 0) => {
                    self.empty_blocks = (1 << run) - 1 + bits.take(u32::from(run));
                    return;
                }
                _ => {
                    let value = (bits.magnitude(size) << self.low) as i16;
                    group[usize::from(ZIGZAG[k] & 63)][lane] = value;
                }
            }
            k += 1;
        }
        if k > 64 {
            bits.note_damage();
        }
    }

    fn restart(&mut self) {
        self.empty_blocks = 0;
    }
}

/// One more bit of a band: of each coefficient that is not zero, and those that become it.
pub(super) struct AcRefine<'a> {
    codes: &'a Huffman,
    band: RangeInclusive<usize>,
    bit: i16,
    /// Blocks to come, this one included, with no new coefficients.
    settled_blocks: u32,
}

impl<'a> AcRefine<'a> {
    pub(super) fn new(codes: &'a Huffman, band: RangeInclusive<usize>, low: u8) -> Self {
        Self { codes, band, bit: 1 << low, settled_blocks: 0 }
    }

    /// Refines what is not zero from `k` on and passes over `zeros` that stay zero; gives the place after them.
    fn refine(
        &self,
        bits: &mut Bits,
        group: &mut Group,
        lane: usize,
        mut k: usize,
        mut zeros: usize,
    ) -> usize {
        while k <= *self.band.end() {
            let coefficient = &mut group[usize::from(ZIGZAG[k] & 63)][lane];
            if *coefficient != 0 {
                if bits.flag() && *coefficient & self.bit == 0 {
                    let step = if *coefficient > 0 { self.bit } else { -self.bit };
                    *coefficient = coefficient.wrapping_add(step);
                }
            } else if zeros == 0 {
                break;
            } else {
                zeros -= 1;
            }
            k += 1;
        }
        k
    }
}

impl Coder for AcRefine<'_> {
    fn block(&mut self, bits: &mut Bits, _: usize, group: &mut Group, lane: usize) {
        let mut k = *self.band.start();
        while self.settled_blocks == 0 && k <= *self.band.end() {
            bits.refill();
            let symbol = bits.symbol(self.codes);
            let (run, size) = (usize::from(symbol >> 4), symbol & 15);
            let value = match (run, size) {
                (15, 0) => 0,
                (_, 0) => {
                    self.settled_blocks = (1 << run) + bits.take(run as u32);
                    break;
                }
                // A new coefficient is one bit high; other sizes are damage, and read as that.
                (_, size) => {
                    if size > 1 {
                        bits.note_damage();
                    }
                    if bits.take(1) == 1 { self.bit } else { -self.bit }
                }
            };
            k = self.refine(bits, group, lane, k, run);
            if value != 0 {
                if k > *self.band.end() {
                    bits.note_damage();
                }
                group[usize::from(ZIGZAG[k] & 63)][lane] = value;
            }
            k += 1;
        }
        if self.settled_blocks > 0 {
            self.refine(bits, group, lane, k, 64);
            self.settled_blocks -= 1;
        }
    }

    fn restart(&mut self) {
        self.settled_blocks = 0;
    }
}
