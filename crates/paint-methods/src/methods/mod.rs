//! The methods, one file each, and the table of all of them.

mod bn_adapt;
pub mod configs;
mod cotta;
mod cpl;
mod deyo;
mod dpcore;
mod eata;
mod ecotta;
mod gain;
mod keel;
mod lame;
mod neo;
pub mod paint;
mod pea;
mod rdumb;
mod rem;
mod rmt;
mod roid;
mod rotta;
mod santa;
mod sar;
mod source;
mod t3a;
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
    rdumb::ENTRY,
    sar::ENTRY,
    deyo::ENTRY,
    roid::ENTRY,
    cpl::ENTRY,
    cotta::ENTRY,
    rotta::ENTRY,
    rmt::ENTRY,
    santa::ENTRY,
    ecotta::ENTRY,
    vdp::ENTRY,
    gain::ENTRY,
    pea::ENTRY,
    zerosiam::ENTRY,
    rem::ENTRY,
    dpcore::ENTRY,
    lame::ENTRY,
    t3a::ENTRY,
    neo::ENTRY,
    keel::ENTRY,
    paint::ENTRY,
];
