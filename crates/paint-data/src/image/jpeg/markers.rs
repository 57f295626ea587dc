//! The outer layer of the file: marker segments, and the entropy-coded data between them.

use super::fault::{Fault, Outcome};

/// Start of frame, baseline sequential; the other kinds follow up to [`SOF15`].
pub(super) const SOF0: u8 = 0xc0;
/// Start of frame, extended sequential.
pub(super) const SOF1: u8 = 0xc1;
/// Start of frame, progressive.
pub(super) const SOF2: u8 = 0xc2;
/// The last kind of frame.
pub(super) const SOF15: u8 = 0xcf;
/// Huffman tables.
pub(super) const DHT: u8 = 0xc4;
/// Reserved among the frames.
pub(super) const JPG: u8 = 0xc8;
/// Conditioning of arithmetic coding.
pub(super) const DAC: u8 = 0xcc;
/// The first of eight restart markers.
const RST0: u8 = 0xd0;
/// Start of image.
const SOI: u8 = 0xd8;
/// End of image.
pub(super) const EOI: u8 = 0xd9;
/// Start of scan.
pub(super) const SOS: u8 = 0xda;
/// Quantisation tables.
pub(super) const DQT: u8 = 0xdb;
/// Restart interval.
pub(super) const DRI: u8 = 0xdd;
/// JFIF.
pub(super) const APP0: u8 = 0xe0;
/// Adobe.
pub(super) const APP14: u8 = 0xee;
/// Temporary, without a length.
const TEM: u8 = 0x01;

/// Zero bytes after the data of an interval, so that a reader can load whole words up to its end.
pub(super) const PADDING: usize = 8;

/// A walk over the markers of a file.
pub(super) struct Markers<'a> {
    rest: &'a [u8],
}

impl<'a> Markers<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The code of the next marker and its body. Junk before a marker is skipped, as every decoder does.
    pub(super) fn next(&mut self) -> Outcome<(u8, &'a [u8])> {
        loop {
            let code = self.next_code().ok_or(Fault::Ends("the markers"))?;
            match code {
                TEM | RST0..=SOI => {}
                EOI => return Ok((EOI, &[])),
                _ => return Ok((code, self.body()?)),
            }
        }
    }

    fn next_code(&mut self) -> Option<u8> {
        let at = self
            .rest
            .windows(2)
            .position(|pair| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff))?;
        let code = self.rest[at + 1];
        self.rest = &self.rest[at + 2..];
        Some(code)
    }

    fn body(&mut self) -> Outcome<&'a [u8]> {
        let ends = Fault::Ends("a marker segment");
        let (length, _) = self.rest.split_first_chunk::<2>().ok_or(ends)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (segment, rest) = self.rest.split_at_checked(length).ok_or(ends)?;
        self.rest = rest;
        segment.get(2..).ok_or(Fault::Damaged("segment length"))
    }

    /// Takes the coded data up to the next marker into `data`, without the zero bytes stuffed after 0xff, and with
    /// [`PADDING`]. The marker itself is left for [`Self::next`] or [`Self::restart`].
    pub(super) fn interval(&mut self, data: &mut Vec<u8>) {
        data.clear();
        loop {
            let at = find_ff(self.rest);
            data.extend_from_slice(&self.rest[..at]);
            self.rest = &self.rest[at..];
            match self.rest {
                [0xff, 0, rest @ ..] => {
                    data.push(0xff);
                    self.rest = rest;
                }
                // Fill bytes, which may precede a marker.
                [0xff, 0xff, ..] => self.rest = &self.rest[1..],
                _ => break,
            }
        }
        data.extend_from_slice(&[0; PADDING]);
    }

    /// Takes the restart marker number `count` (modulo eight), or finds the best place to go on without it, as
    /// libjpeg does.
    pub(super) fn restart(&mut self, count: usize) -> Outcome<Restart> {
        let expected = (count % 8) as u8;
        let mut found = Restart::InOrder;
        loop {
            let before = self.rest;
            let code = self.next_code().ok_or(Fault::Ends("a scan"))?;
            let distance = match code {
                RST0..SOI => (code - RST0).wrapping_sub(expected) % 8,
                // Any other marker is a later one, unless it has no meaning.
                SOF0.. => 1,
                _ => 7,
            };
            match distance {
                0 => return Ok(found),
                // One of the next two: the data before it are lost.
                1 | 2 => {
                    let marker = before.len() - self.rest.len() - 2;
                    self.rest = &before[marker..];
                    return Ok(Restart::Ahead);
                }
                // One of the last two: its data were taken for those of the interval before.
                6 | 7 => found = Restart::Resumed,
                _ => return Ok(Restart::Resumed),
            }
        }
    }
}

/// What was found in place of a restart marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    /// The marker.
    InOrder,
    /// Another marker, after which the data go on.
    Resumed,
    /// A later marker: this interval has no data.
    Ahead,
}

/// The place of the first 0xff, or the length.
fn find_ff(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let whole = words.iter().position(|word| word.contains(&0xff)).unwrap_or(words.len()) * 8;
    let tail = &bytes[whole..];
    whole + tail.iter().position(|&byte| byte == 0xff).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_at_a_marker_and_loses_its_stuffing() {
        let bytes = [1, 2, 0xff, 0, 3, 4, 5, 6, 7, 8, 9, 10, 0xff, 0xff, 0xd1, 11, 0xff];
        let mut markers = Markers::new(&bytes);
        let mut data = Vec::new();
        markers.interval(&mut data);
        assert_eq!(data[..data.len() - PADDING], [1, 2, 0xff, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(markers.restart(9), Ok(Restart::InOrder));
        markers.interval(&mut data);
        assert_eq!(data[..data.len() - PADDING], [11]);
        assert_eq!(markers.restart(2), Err(Fault::Ends("a scan")));
    }

    #[test]
    fn a_restart_out_of_order_is_gone_on_from_as_libjpeg_does() {
        let restart = |bytes: &[u8], count| {
            let mut markers = Markers::new(bytes);
            (markers.restart(count), markers.len())
        };
        // Expected is number 3. The next two are left where they are, the last two passed over, and others taken.
        for (found, expected) in [
            (0xd3, (Ok(Restart::InOrder), 2)),
            (0xd4, (Ok(Restart::Ahead), 4)),
            (0xd5, (Ok(Restart::Ahead), 4)),
            (0xd6, (Ok(Restart::Resumed), 2)),
            (0xd7, (Ok(Restart::Resumed), 2)),
            (0xd0, (Ok(Restart::Resumed), 2)),
            (EOI, (Ok(Restart::Ahead), 4)),
        ] {
            assert_eq!(restart(&[0xff, found, 7, 7], 11), expected, "{found:02x}");
        }
        for passed in [0xd1, 0xd2, TEM] {
            let found = restart(&[0xff, passed, 7, 0xff, 0xd3, 7], 3);
            assert_eq!(found, (Ok(Restart::Resumed), 1), "{passed:02x}");
        }
        // What lies before a later marker is lost, so that the next interval has no data.
        let bytes = [0xff, TEM, 7, 7, 0xff, EOI];
        assert_eq!(restart(&bytes, 3), (Ok(Restart::Ahead), 2));
    }

    #[test]
    fn segments_give_their_bodies_and_refuse_impossible_lengths() {
        let mut markers = Markers::new(&[0xff, SOI, 9, 0xff, 0xff, DRI, 0, 4, 1, 2, 0xff, EOI]);
        assert_eq!(markers.next(), Ok((DRI, &[1, 2][..])));
        assert_eq!(markers.next(), Ok((EOI, &[][..])));
        assert_eq!(markers.next(), Err(Fault::Ends("the markers")));
        assert!(Markers::new(&[0xff, DRI, 0, 1, 2]).next().is_err());
        assert!(Markers::new(&[0xff, DRI, 0, 5, 2]).next().is_err());
    }
}
