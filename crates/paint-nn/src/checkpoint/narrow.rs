//! The two 16-bit floats of checkpoints, as bits, to and from f32; rounding is to the nearest, ties to even.

/// An IEEE half as f32; exact.
pub(super) fn f16_to_f32(half: u16) -> f32 {
    let (sign, magnitude) = (u32::from(half & 0x8000) << 16, u32::from(half & 0x7fff));
    let magnitude = match magnitude {
        // Subnormal: multiples of 2^-24.
        0..0x0400 => (magnitude as f32 / 16_777_216.0).to_bits(),
        // The bias of the exponent grows from 15 to 127.
        0x0400..0x7c00 => (magnitude << 13) + (112 << 23),
        _ => magnitude << 13 | 0x7f80_0000,
    };
    f32::from_bits(sign | magnitude)
}

/// The nearest IEEE half.
pub(super) fn f16_from_f32(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.abs().to_bits();
    let half = match magnitude {
        0..0x3880_0000 => (x.abs() * 16_777_216.0).round_ties_even() as u16,
        // Rounding may carry up to infinity.
        0x3880_0000..0x4780_0000 => {
            ((magnitude - (112 << 23) + 0x0fff + (magnitude >> 13 & 1)) >> 13) as u16
        }
        0x4780_0000..=0x7f80_0000 => 0x7c00,
        _ => 0x7e00,
    };
    sign | half
}

/// A bfloat as f32; exact.
pub(super) fn bf16_to_f32(bfloat: u16) -> f32 {
    f32::from_bits(u32::from(bfloat) << 16)
}

/// The nearest bfloat.
pub(super) fn bf16_from_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        // Not rounded, as that could make it infinite.
        return (bits >> 16) as u16 | 0x0040;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    #[test]
    fn every_half_and_bfloat_comes_back() {
        for bits in 0..=u16::MAX {
            let (half, bfloat) = (f16_to_f32(bits), bf16_to_f32(bits));
            assert!(
                half.is_nan() && f16_to_f32(f16_from_f32(half)).is_nan()
                    || f16_from_f32(half) == bits
            );
            assert!(
                bfloat.is_nan() && bf16_to_f32(bf16_from_f32(bfloat)).is_nan()
                    || bf16_from_f32(bfloat) == bits
            );
        }
    }

    #[test]
    fn known_values_convert() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc100, -2.5),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(f16_to_f32(bits), value);
        }
        assert_eq!(f16_from_f32(65519.9), 0x7bff);
        assert_eq!(f16_from_f32(-65520.0), 0xfc00);
        assert_eq!(f16_from_f32(1e-9), 0);
        assert_eq!(bf16_to_f32(0x4049), 3.140_625);
        assert_eq!(bf16_from_f32(f32::MAX), 0x7f80);
    }

    /// `x` is no nearer to a neighbour of its narrow form, and at half way that form is even.
    fn check(x: f32, narrow: u16, widen: fn(u16) -> f32) {
        let distance = |bits: u16| (f64::from(widen(bits)) - f64::from(x)).abs();
        for other in [narrow.saturating_sub(1), narrow + 1] {
            let (ours, theirs) = (distance(narrow), distance(other));
            assert!(
                ours < theirs || other == narrow || ours == theirs && narrow.is_multiple_of(2),
                "{x}"
            );
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_and_ties_go_to_even() {
        let mut rng = Seed(3).derive("narrow", &[]);
        for _ in 0..100_000 {
            // From the smallest subnormal half to the largest half; each also half way between two of either kind.
            let bits = 0x3380_0000 + rng.below(0x13ff_e000) as u32;
            for bits in [bits, bits & !0x1fff | 0x1000, bits & !0xffff | 0x8000] {
                let x = f32::from_bits(bits);
                check(x, bf16_from_f32(x), bf16_to_f32);
                check(x, f16_from_f32(x), f16_to_f32);
            }
        }
    }
}
