//! The precision that a device computes in.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// How matrix products and activations are computed. Parameters, their gradients, sums and losses are always `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Everything in `f32`.
    #[default]
    F32,
    /// Products of `f32` numbers rounded to 10 bits of fraction, on tensor cores; on a CPU with AMX cut to 15 bits, on
    /// others as in `f32`.
    Tf32,
    /// A transformer's activations and products in bf16.
    Bf16,
    /// On a CPU with AVX-512 VNNI, linear layers inside a network with 8-bit integers where no gradient passes through
    /// them; everything else in `f32`.
    Int8,
    /// On an NVIDIA GPU from Ada on, linear layers inside a transformer with 8-bit floats where no gradient passes through
    /// them; everything else as in [`Self::Bf16`].
    Fp8,
}

impl Precision {
    /// Every precision, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("f32", Self::F32),
        ("tf32", Self::Tf32),
        ("bf16", Self::Bf16),
        ("int8", Self::Int8),
        ("fp8", Self::Fp8),
    ];

    /// Whether activations of a transformer are stored in bf16.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "the CPU stores every activation in f32")
    )]
    pub(crate) fn is_compact(self) -> bool {
        matches!(self, Self::Bf16 | Self::Fp8)
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let row = Self::ALL.iter().find(|(known, _)| *known == name);
        row.map(|&(_, precision)| precision).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name).join(", ");
            Error::Precision { name: name.to_owned(), known }
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, precision)| precision == self).map(|(name, _)| name);
        f.write_str(name.expect("every precision is in ALL"))
    }
}
