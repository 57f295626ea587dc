//! The bits of one restart interval, read from the top of a 64-bit buffer.

use super::huffman::{Huffman, LOOKAHEAD};
use super::markers::PADDING;

/// A reader of bits. Past the end it gives zeros and remembers it, so that the inner loops need not look; so it does
/// with damage, which libjpeg reads over with a warning.
pub(super) struct Bits<'a> {
    /// With [`PADDING`] at the end.
    data: &'a [u8],
    at: usize,
    /// The next bits, the first one highest.
    buffer: u64,
    /// How many bits of the buffer count.
    count: u32,
    damaged: bool,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, buffer: 0, count: 0, damaged: false }
    }

    /// Makes at least 56 bits available: a code and its magnitude take at most 31.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if let Some(word) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            self.buffer |= u64::from_be_bytes(*word) >> self.count;
        }
        self.at += ((63 - self.count) >> 3) as usize;
        // A whole number of bytes came in: 56 to 63 bits, the last three digits as before.
        self.count |= 0b11_1000;
    }

    #[inline(always)]
    pub(super) fn peek(&self, bits: u32) -> usize {
        (self.buffer >> (64 - bits)) as usize
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count -= bits;
    }

    /// The next `bits` (0 to 16) as a number.
    #[inline(always)]
    pub(super) fn take(&mut self, bits: u32) -> u32 {
        // Two shifts: one by 64 would not be defined.
        let value = (self.buffer >> 1 >> (63 - bits)) as u32;
        self.skip(bits);
        value
    }

    /// One bit; refills.
    #[inline(always)]
    pub(super) fn flag(&mut self) -> bool {
        self.refill();
        self.take(1) == 1
    }

    /// The next `bits` as the standard codes signed numbers: those with a leading zero are negative.
    #[inline(always)]
    pub(super) fn magnitude(&mut self, bits: u32) -> i32 {
        let value = self.take(bits).cast_signed();
        let half = (1 << bits) >> 1;
        if value < half { value - (1 << bits) + 1 } else { value }
    }

    /// The next symbol of a code.
    #[inline(always)]
    pub(super) fn symbol(&mut self, huffman: &Huffman) -> u8 {
        let (length, symbol) = huffman.short(self.peek(LOOKAHEAD));
        if length > 0 {
            self.skip(length);
            return symbol;
        }
        self.long_symbol(huffman)
    }

    /// Bits that are no code count as the symbol 0 after 17 of them, as in libjpeg.
    #[cold]
    fn long_symbol(&mut self, huffman: &Huffman) -> u8 {
        let (length, symbol) = huffman.long(self.peek(16)).unwrap_or_else(|| {
            self.damaged = true;
            (17, 0)
        });
        self.skip(length);
        symbol
    }

    /// Notes damage that the bits themselves do not show.
    #[cold]
    pub(super) fn note_damage(&mut self) {
        self.damaged = true;
    }

    /// True if some bits were no code, or a code that cannot stand there.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// True if more bits were read than there are.
    pub(super) fn overrun(&self) -> bool {
        self.at * 8 - self.count as usize > (self.data.len() - PADDING) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order_over_many_refills_and_the_end_is_noticed() {
        let mut data: Vec<u8> = (0..40).collect();
        data.extend([0; PADDING]);
        let mut bits = Bits::new(&data);
        for expected in 0..40 {
            bits.refill();
            assert_eq!(bits.take(3), expected >> 5);
            bits.refill();
            assert_eq!(bits.take(5), expected & 31);
            assert!(!bits.overrun());
        }
        bits.refill();
        assert_eq!(bits.take(0), 0);
        assert!(!bits.overrun());
        for _ in 0..100 {
            assert!(!bits.flag());
            assert!(bits.overrun());
        }
    }

    #[test]
    fn magnitudes_are_signed_by_their_first_bit() {
        let mut data = vec![0b0100_1100, 0b1000_0000];
        data.extend([0; PADDING]);
        let mut bits = Bits::new(&data);
        bits.refill();
        assert_eq!([1, 1, 2, 2, 3, 0].map(|n| bits.magnitude(n)), [-1, 1, -3, 3, -6, 0]);
    }
}
