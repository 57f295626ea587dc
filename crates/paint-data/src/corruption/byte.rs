//! The step from a float result to the stored byte.

/// 2²³: from here on single-precision numbers are whole.
const WHOLE: f32 = 8_388_608.0;

/// The whole part of a number in `[0, 2²²)`. Rust's own cast also handles what lies outside, which compilers do not
/// turn into vector instructions.
#[inline(always)]
pub(super) fn truncate(value: f32) -> u32 {
    let rounded = value + WHOLE;
    let up = u32::from(rounded - WHOLE > value);
    (rounded.to_bits() & 0x007f_ffff) - up
}

/// Clips and truncates, as every recipe ends.
#[inline(always)]
pub(super) fn to_byte(level: f32) -> u8 {
    truncate(level.clamp(0.0, 255.0)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_clipped_and_truncated() {
        let levels = [-3.0, -0.1, 0.0, 0.99, 1.0, 254.999, 255.0, 255.1, 1e9];
        assert_eq!(levels.map(to_byte), [0, 0, 0, 0, 1, 254, 255, 255, 255]);
    }

    #[test]
    fn truncation_equals_the_cast() {
        for i in 0..200_000_u32 {
            let value = f32::from_bits(i * 6_000 % 4_194_304_f32.to_bits());
            assert_eq!(truncate(value), value as u32, "{value}");
        }
        for i in 0..70_000 {
            let (below, at) = ((i as f32).next_down().max(0.0), i as f32);
            assert_eq!((truncate(below), truncate(at), truncate(at + 0.5)), (below as u32, i, i));
        }
    }
}
