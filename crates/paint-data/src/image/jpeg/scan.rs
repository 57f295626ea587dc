//! One scan: which components and coefficients it carries, and the walk over their blocks.

use super::bits::Bits;
use super::fault::{Fault, Outcome};
use super::frame::{Frame, Group};
use super::huffman::Huffman;
use super::markers::{Markers, Restart};
use super::progressive::{AcFirst, AcRefine, DcFirst, DcRefine};
use super::sequential::Sequential;
use super::tables::Tables;
use super::transform::transform;

/// The most blocks of one unit of an interleaved scan.
const MAX_UNIT_BLOCKS: usize = 10;

/// A scan header.
pub(super) struct Scan {
    parts: Vec<Part>,
    /// The first and last coefficient, in coded order.
    pub(super) band: (usize, usize),
    /// The bit that earlier scans have brought, 0 for none, and the bit that this one brings.
    bits: (u8, u8),
}

/// One component of a scan and its codes.
struct Part {
    component: usize,
    dc: usize,
    ac: usize,
}

/// How the blocks of one kind of scan are coded.
pub(super) trait Coder {
    /// Decodes a block of the scan's `part`th component into a lane.
    fn block(&mut self, bits: &mut Bits, part: usize, group: &mut Group, lane: usize);
    /// Forgets what goes from block to block.
    fn restart(&mut self);
}

impl Scan {
    pub(super) fn read(body: &[u8], frame: &Frame) -> Outcome<Self> {
        let damaged = Fault::Damaged("scan header");
        let (&count, rest) = body.split_first().ok_or(damaged)?;
        let (rows, tail) = rest.split_at_checked(2 * usize::from(count)).ok_or(damaged)?;
        let &[first, last, bits] = tail else { return Err(damaged) };
        let mut parts: Vec<Part> = Vec::new();
        for &[id, tables] in rows.as_chunks::<2>().0 {
            // Some files give several components the same identifier; they come in order then.
            let component = frame.components.iter().enumerate().position(|(index, component)| {
                component.id == id && parts.iter().all(|part| part.component != index)
            });
            let (dc, ac) = (usize::from(tables >> 4), usize::from(tables & 15));
            parts.push(Part { component: component.ok_or(damaged)?, dc, ac });
        }
        let blocks = |part: &Part| {
            let component = &frame.components[part.component];
            component.h * component.v
        };
        if parts.is_empty()
            || parts.len() > 1 && parts.iter().map(blocks).sum::<usize>() > MAX_UNIT_BLOCKS
        {
            return Err(damaged);
        }
        let scan = Self {
            parts,
            band: (usize::from(first), usize::from(last)),
            bits: (bits >> 4, bits & 15),
        };
        if frame.progressive {
            scan.check_progression()?;
        }
        Ok(scan)
    }

    fn check_progression(&self) -> Outcome<()> {
        let ((first, last), (high, low)) = (self.band, self.bits);
        let band = if first == 0 { last == 0 } else { first <= last && self.parts.len() == 1 };
        let refines = high == 0 || low + 1 == high;
        if band && last < 64 && refines && low <= 13 {
            Ok(())
        } else {
            Err(Fault::Damaged("progression"))
        }
    }

    /// Decodes the scan into the frame.
    pub(super) fn decode(
        &self,
        frame: &mut Frame,
        tables: &Tables,
        markers: &mut Markers,
    ) -> Outcome<()> {
        for part in &self.parts {
            let component = &mut frame.components[part.component];
            if component.steps.is_none() {
                let steps = tables.steps[component.table];
                component.steps = Some(steps.ok_or(Fault::Missing("quantisation table"))?);
            }
            component.complete |= !frame.progressive || self.band.0 == 0;
        }
        let dc = || self.codes(&tables.dc, |part| part.dc);
        let ac = || self.codes(&tables.ac, |part| part.ac);
        let interval = tables.restart_interval;
        let (first, last) = self.band;
        match (frame.progressive, first, self.bits) {
            (false, ..) => self.walk(frame, interval, markers, Sequential::new(dc()?, ac()?)),
            (_, 0, (0, low)) => self.walk(frame, interval, markers, DcFirst::new(dc()?, low)),
            (_, 0, (_, low)) => self.walk(frame, interval, markers, DcRefine::new(low)),
            (_, _, (0, low)) => {
                self.walk(frame, interval, markers, AcFirst::new(ac()?[0], first..=last, low))
            }
            (_, _, (_, low)) => {
                self.walk(frame, interval, markers, AcRefine::new(ac()?[0], first..=last, low))
            }
        }
    }

    fn codes<'a>(
        &self,
        tables: &'a [Option<Huffman>; 4],
        which: impl Fn(&Part) -> usize,
    ) -> Outcome<Vec<&'a Huffman>> {
        self.parts
            .iter()
            .map(|part| tables.get(which(part)).and_then(Option::as_ref))
            .collect::<Option<_>>()
            .ok_or(Fault::Missing("Huffman table"))
    }

    fn walk(
        &self,
        frame: &mut Frame,
        interval: usize,
        markers: &mut Markers,
        mut coder: impl Coder,
    ) -> Outcome<()> {
        let interleaved = self.parts.len() > 1;
        let (across, down) = self.units(frame);
        let units = across * down;
        let interval = if interval == 0 { units } else { interval };
        let mut data = Vec::new();
        let (mut column, mut row) = (0, 0);
        // Once the data of an interval have ended, its other blocks stay as they are.
        let mut exhausted = false;
        for (count, start) in (0..units).step_by(interval).enumerate() {
            if let Some(number) = count.checked_sub(1) {
                let restart = markers.restart(number)?;
                exhausted &= restart == Restart::Ahead;
                if restart != Restart::InOrder {
                    frame.note(Fault::Restart);
                }
                coder.restart();
            }
            markers.interval(&mut data);
            let mut bits = Bits::new(&data);
            for _ in start..units.min(start + interval) {
                if !exhausted {
                    self.unit(frame, &mut bits, &mut coder, (column, row));
                    exhausted = bits.overrun();
                }
                column += 1;
                if column == across {
                    if !frame.progressive {
                        self.finish_row(frame, row, interleaved);
                    }
                    (column, row) = (0, row + 1);
                }
            }
            if exhausted {
                frame.note(Fault::Ends("a scan"));
            }
            if bits.is_damaged() {
                frame.note(Fault::Damaged("code"));
            }
        }
        Ok(())
    }

    /// Decodes the blocks of one unit.
    #[inline(always)]
    fn unit(
        &self,
        frame: &mut Frame,
        bits: &mut Bits,
        coder: &mut impl Coder,
        (column, row): (usize, usize),
    ) {
        let interleaved = self.parts.len() > 1;
        for (index, part) in self.parts.iter().enumerate() {
            let component = &mut frame.components[part.component];
            let (h, v) = if interleaved { (component.h, component.v) } else { (1, 1) };
            for y in 0..v {
                let kept = if frame.progressive { row * v + y } else { y };
                let groups = &mut component.coefficients[kept * component.groups..];
                for block in column * h..(column + 1) * h {
                    coder.block(bits, index, &mut groups[block / 8], block % 8);
                }
            }
        }
    }

    /// The units of the scan, across and down: blocks, where it has one component.
    fn units(&self, frame: &Frame) -> (usize, usize) {
        match &self.parts[..] {
            [part] => frame.components[part.component].blocks,
            _ => frame.units,
        }
    }

    /// The coefficients that the scan passes over.
    pub(super) fn work(&self, frame: &Frame) -> usize {
        let (across, down) = self.units(frame);
        let is_banded = frame.progressive && self.band.0 > 0;
        let band = if is_banded { self.band.1 + 1 - self.band.0 } else { 1 };
        across * down * band
    }

    /// Turns a finished row of units into samples, so that a sequential image never holds more coefficients than that.
    fn finish_row(&self, frame: &mut Frame, row: usize, interleaved: bool) {
        for part in &self.parts {
            let component = &mut frame.components[part.component];
            let v = if interleaved { component.v } else { 1 };
            transform(component, row * v, v);
        }
    }
}
