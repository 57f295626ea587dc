//! The methods, one file each, and the table of all of them.

mod bn_adapt;
pub mod configs;
mod cotta;
mod cpl;
mod dpcore;
mod eata;
mod gain;
mod keel;
pub mod paint;
mod rem;
mod rmt;
mod santa;
mod sar;
mod source;
mod tent;
mod vdp;
mod zerosiam;

use crate::entry::MethodEntry;

/// Every method of this crate, in the order of reports. [`Registry`](crate::Registry) adds rows of other crates.
pub const METHODS: &[MethodEntry] = &[
    source::ENTRY,
    bn_adapt::ENTRY,
    tent::ENTRY,
    eata::ENTRY_ETA,
    eata::ENTRY_EATA,
    sar::ENTRY,
    cpl::ENTRY,
    cotta::ENTRY,
    rmt::ENTRY,
    santa::ENTRY,
    vdp::ENTRY,
    gain::ENTRY,
    zerosiam::ENTRY,
    rem::ENTRY,
    dpcore::ENTRY,
    keel::ENTRY,
    paint::ENTRY,
];
