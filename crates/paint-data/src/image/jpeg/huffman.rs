//! Huffman codes, by lookup of their first bits.

use super::fault::{Fault, Outcome};

/// Codes up to this length are found by one lookup.
pub(super) const LOOKAHEAD: u32 = 9;
/// Codes of coefficients together with the coefficient, up to this length.
pub(super) const COEFFICIENT_LOOKAHEAD: u32 = 10;

/// A code, prepared for decoding.
pub(super) struct Huffman {
    /// For the next bits: length and symbol, or length 0 for longer codes.
    short: [(u8, u8); 1 << LOOKAHEAD],
    /// For the next bits, where they hold a code and the magnitude after it: the coefficient, the run of zeros before
    /// it, and the bits of both together; 0 bits otherwise.
    coefficients: Box<[Coefficient; 1 << COEFFICIENT_LOOKAHEAD]>,
    /// For each length from 1: the first code that is longer, left-aligned in 16 bits.
    ends: [u32; 16],
    /// For each length from 1: what to add to a code of that length to get the place of its symbol.
    offsets: [i32; 16],
    symbols: [u8; 256],
}

/// An entry of the lookup that includes magnitudes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Coefficient {
    pub(super) value: i16,
    pub(super) run: u8,
    pub(super) bits: u8,
}

impl Huffman {
    /// From the number of codes of each length (1 to 16) and the symbols in the order of their codes.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Outcome<Self> {
        let damaged = Fault::Damaged("Huffman table");
        let mut table = Self {
            short: [(0, 0); 1 << LOOKAHEAD],
            coefficients: Box::new([Coefficient::default(); 1 << COEFFICIENT_LOOKAHEAD]),
            ends: [0; 16],
            offsets: [0; 16],
            symbols: [0; 256],
        };
        table.symbols.get_mut(..symbols.len()).ok_or(damaged)?.copy_from_slice(symbols);
        let (mut code, mut place) = (0_u32, 0_usize);
        for (index, &count) in counts.iter().enumerate() {
            let length = index as u32 + 1;
            table.offsets[index] = place as i32 - code as i32;
            for _ in 0..count {
                let symbol = *symbols.get(place).ok_or(damaged)?;
                // All ones is not a code, but libjpeg takes it.
                if code >> length != 0 {
                    return Err(damaged);
                }
                if let Some(free) = LOOKAHEAD.checked_sub(length) {
                    let first = (code << free) as usize;
                    table.short[first..first + (1 << free)].fill((length as u8, symbol));
                }
                code += 1;
                place += 1;
            }
            table.ends[index] = code << (16 - length);
            code <<= 1;
        }
        table.find_coefficients();
        Ok(table)
    }

    fn find_coefficients(&mut self) {
        for (index, entry) in self.coefficients.iter_mut().enumerate() {
            let (length, symbol) = self.short[index >> (COEFFICIENT_LOOKAHEAD - LOOKAHEAD)];
            let size = u32::from(symbol & 15);
            let bits = u32::from(length) + size;
            if length == 0 || size == 0 || bits > COEFFICIENT_LOOKAHEAD {
                continue;
            }
            let magnitude = (index >> (COEFFICIENT_LOOKAHEAD - bits)) as i32 & ((1 << size) - 1);
            let negative = magnitude < 1 << (size - 1);
            let value = if negative { magnitude - (1 << size) + 1 } else { magnitude };
            *entry = Coefficient { value: value as i16, run: symbol >> 4, bits: bits as u8 };
        }
    }

    /// Length and symbol for the next [`LOOKAHEAD`] bits; length 0 if the code is longer.
    #[inline(always)]
    pub(super) fn short(&self, bits: usize) -> (u32, u8) {
        let (length, symbol) = self.short[bits % (1 << LOOKAHEAD)];
        (u32::from(length), symbol)
    }

    /// The entry for the next [`COEFFICIENT_LOOKAHEAD`] bits.
    #[inline(always)]
    pub(super) fn coefficient(&self, bits: usize) -> Coefficient {
        self.coefficients[bits % (1 << COEFFICIENT_LOOKAHEAD)]
    }

    /// Length and symbol of any code, from the next 16 bits.
    #[cold]
    pub(super) fn long(&self, bits: usize) -> Option<(u32, u8)> {
        let index = self.ends.iter().position(|&end| (bits as u32) < end)?;
        let code = (bits >> (15 - index)) as i32;
        let symbol = *self.symbols.get(usize::try_from(code + self.offsets[index]).ok()?)?;
        Some((index as u32 + 1, symbol))
    }

    /// True if every symbol is at most `limit`.
    pub(super) fn all_at_most(&self, limit: u8) -> bool {
        self.symbols.iter().all(|&symbol| symbol <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes 0, 10, 110, ... of lengths 1 to 16; the one of length `n` stands for `n`.
    fn ladder() -> Huffman {
        Huffman::new(&[1; 16], &(1..=16).collect::<Vec<u8>>()).unwrap()
    }

    #[test]
    fn both_lookups_give_the_same_symbols() {
        let table = ladder();
        for length in 1..=16_u32 {
            let bits = (((1 << (length - 1)) - 1) << (17 - length)) as usize;
            assert_eq!(table.long(bits), Some((length, length as u8)));
            let expected = if length <= LOOKAHEAD { (length, length as u8) } else { (0, 0) };
            assert_eq!(table.short(bits >> (16 - LOOKAHEAD)), expected);
        }
        assert_eq!(table.long(0xffff), None);
    }

    #[test]
    fn a_coefficient_is_found_with_its_code() {
        // The code 110 has three bits of magnitude after it.
        let found = ladder().coefficient(0b11_0010_1111);
        assert_eq!((found.value, found.run, found.bits), (-5, 0, 6));
        assert_eq!(ladder().coefficient(0b11_1110_0000).bits, 0);
    }

    #[test]
    fn codes_that_do_not_fit_are_refused() {
        assert!(
            Huffman::new(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2]).is_err()
        );
        assert!(Huffman::new(&[1; 16], &[0; 15]).is_err());
        assert!(Huffman::new(&[0; 16], &[0; 257]).is_err());
    }
}
