//! Blocks of baseline and extended sequential scans: all coefficients at once.

use super::bits::Bits;
use super::frame::Group;
use super::huffman::{COEFFICIENT_LOOKAHEAD, Huffman};
use super::scan::Coder;
use super::tables::ZIGZAG;

/// The codes of each component and its last constant coefficient.
pub(super) struct Sequential<'a> {
    dc: Vec<&'a Huffman>,
    ac: Vec<&'a Huffman>,
    last: [i32; 4],
}

impl<'a> Sequential<'a> {
    pub(super) fn new(dc: Vec<&'a Huffman>, ac: Vec<&'a Huffman>) -> Self {
        Self { dc, ac, last: [0; 4] }
    }
}

impl Coder for Sequential<'_> {
    #[inline]
    fn block(&mut self, bits: &mut Bits, part: usize, group: &mut Group, lane: usize) {
        let ac = self.ac[part];
        bits.refill();
        let size = bits.symbol(self.dc[part]);
        let last = &mut self.last[part];
        *last = last.wrapping_add(bits.magnitude(u32::from(size)));
        group[0][lane] = *last as i16;
        let mut k = 1;
        while k < 64 {
            bits.refill();
            let known = ac.coefficient(bits.peek(COEFFICIENT_LOOKAHEAD));
            let (run, value) = if known.bits > 0 {
                bits.skip(u32::from(known.bits));
                (usize::from(known.run & 15), known.value)
            } else {
                let symbol = bits.symbol(ac);
                let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
                match (run, size) {
                    (15, 0) => {
                        k += 16;
                        continue;
                    }
                    (_, 0) => return,
                    _ => (run, bits.magnitude(size) as i16),
                }
            };
            k += run;
            group[usize::from(ZIGZAG[k] & 63)][lane] = value;
            k += 1;
        }
        if k > 64 {
            bits.note_damage();
        }
    }

    fn restart(&mut self) {
        self.last = [0; 4];
    }
}
