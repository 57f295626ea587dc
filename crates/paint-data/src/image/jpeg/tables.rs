//! What the segments between scans define: quantisation, codes, restarts, and hints at the colour space.

use super::fault::{Fault, Outcome};
use super::huffman::Huffman;
use super::markers::{APP0, APP14, DHT, DQT, DRI};

/// The place of the `k`th coded coefficient, row by row. Entries past the block catch what a damaged run would skip to.
pub(super) const ZIGZAG: [u8; 80] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63,
];

/// The tables in force.
#[derive(Default)]
pub(super) struct Tables {
    /// Quantisation steps, row by row.
    pub(super) steps: [Option<[u16; 64]>; 4],
    /// Codes of the constant coefficients.
    pub(super) dc: [Option<Huffman>; 4],
    /// Codes of the others.
    pub(super) ac: [Option<Huffman>; 4],
    /// Units between restart markers; 0 for none.
    pub(super) restart_interval: usize,
    /// True after a JFIF marker.
    pub(super) jfif: bool,
    /// The colour transform of an Adobe marker.
    pub(super) adobe: Option<u8>,
}

impl Tables {
    /// Takes in a segment; those that define nothing are passed over.
    pub(super) fn read(&mut self, code: u8, body: &[u8]) -> Outcome<()> {
        match (code, body) {
            (DQT, _) => self.read_steps(body),
            (DHT, _) => self.read_codes(body),
            (DRI, &[high, low]) => {
                self.restart_interval = usize::from(u16::from_be_bytes([high, low]));
                Ok(())
            }
            (DRI, _) => Err(Fault::Damaged("restart interval")),
            (APP0, [b'J', b'F', b'I', b'F', 0, ..]) if body.len() >= 14 => {
                self.jfif = true;
                Ok(())
            }
            (APP14, &[b'A', b'd', b'o', b'b', b'e', _, _, _, _, _, _, transform, ..]) => {
                self.adobe = Some(transform);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read_steps(&mut self, mut body: &[u8]) -> Outcome<()> {
        let damaged = Fault::Damaged("quantisation table");
        while let Some((&head, rest)) = body.split_first() {
            let wide = head >> 4 != 0;
            let size = if wide { 128 } else { 64 };
            let (values, rest) = rest.split_at_checked(size).ok_or(damaged)?;
            let slot = self.steps.get_mut(usize::from(head & 15)).ok_or(damaged)?;
            let mut steps = [0; 64];
            for (k, &place) in ZIGZAG[..64].iter().enumerate() {
                steps[usize::from(place)] = if wide {
                    u16::from_be_bytes([values[2 * k], values[2 * k + 1]])
                } else {
                    u16::from(values[k])
                };
            }
            *slot = Some(steps);
            body = rest;
        }
        Ok(())
    }

    fn read_codes(&mut self, mut body: &[u8]) -> Outcome<()> {
        let damaged = Fault::Damaged("Huffman table");
        while let Some((&head, rest)) = body.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or(damaged)?;
            let total = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(total).ok_or(damaged)?;
            let slots = match head >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return Err(damaged),
            };
            let huffman = Huffman::new(counts, symbols)?;
            // The symbol of a constant coefficient is the size of its difference.
            if head >> 4 == 0 && !huffman.all_at_most(15) {
                return Err(damaged);
            }
            *slots.get_mut(usize::from(head & 15)).ok_or(damaged)? = Some(huffman);
            body = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_brought_into_rows() {
        let mut body = vec![0x02];
        body.extend(1..=64);
        let mut tables = Tables::default();
        tables.read(DQT, &body).unwrap();
        let steps = tables.steps[2].unwrap();
        assert_eq!((steps[0], steps[1], steps[8], steps[16], steps[63]), (1, 2, 3, 4, 64));
        assert!(tables.read(DQT, &body[..64]).is_err());
        body[0] = 0x04;
        assert!(tables.read(DQT, &body).is_err());
    }

    #[test]
    fn hints_at_colour_need_their_signature() {
        let mut tables = Tables::default();
        tables.read(APP0, b"JFXX\0\x01\x01\0\0\x01\0\x01\0\0").unwrap();
        tables.read(APP14, b"Adobe\0\x64\0\0\0\0").unwrap();
        assert_eq!((tables.jfif, tables.adobe), (false, None));
        tables.read(APP0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0").unwrap();
        tables.read(APP14, b"Adobe\0\x64\0\0\0\0\x02").unwrap();
        assert_eq!((tables.jfif, tables.adobe), (true, Some(2)));
    }
}
