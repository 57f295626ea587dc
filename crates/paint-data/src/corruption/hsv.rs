//! Hue, saturation and value in `[0, 1]`, with the operations of scikit-image.
//!
//! Results often lie exactly on a byte, where rounding error decides which way they are truncated, so the order of the
//! operations is part of the recipe.

/// `v / 255`: divisions are what this conversion consists of.
const UNIT: [f64; 256] = {
    let mut unit = [0.0; 256];
    let mut v = 0;
    while v < 256 {
        unit[v] = v as f64 / 255.0;
        v += 1;
    }
    unit
};

/// One pixel.
pub(super) struct Hsv {
    hue: f64,
    /// `S`.
    pub(super) saturation: f64,
    /// `V`.
    pub(super) value: f64,
}

impl Hsv {
    #[inline]
    pub(super) fn from_rgb(rgb: [u8; 3]) -> Self {
        let [r, g, b] = rgb.map(|channel| UNIT[usize::from(channel)]);
        let value = r.max(g).max(b);
        let delta = value - r.min(g).min(b);
        if delta == 0.0 {
            return Self { hue: 0.0, saturation: 0.0, value };
        }
        let sixths = if b == value {
            4.0 + (r - g) / delta
        } else if g == value {
            2.0 + (b - r) / delta
        } else {
            (g - b) / delta
        };
        let hue = sixths / 6.0;
        Self { hue: if hue < 0.0 { hue + 1.0 } else { hue }, saturation: delta / value, value }
    }

    /// Back to bytes, truncated.
    #[inline]
    pub(super) fn to_rgb(&self) -> [u8; 3] {
        let Self { hue, saturation: s, value: v } = *self;
        let sector = (hue * 6.0) as usize;
        let f = hue * 6.0 - sector as f64;
        let (p, q, t) = (v * (1.0 - s), v * (1.0 - f * s), v * (1.0 - (1.0 - f) * s));
        let rgb = match sector % 6 {
            0 => [v, t, p],
            1 => [q, v, p],
            2 => [p, v, t],
            3 => [p, q, v],
            4 => [t, p, v],
            _ => [v, p, q],
        };
        rgb.map(|channel| (channel * 255.0) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_survive_the_way_there_and_back_up_to_truncation() {
        for rgb in [
            [255, 0, 0],
            [10, 200, 30],
            [3, 2, 250],
            [77, 77, 77],
            [0, 0, 0],
            [250, 4, 251],
            [9, 250, 250],
        ] {
            let back = Hsv::from_rgb(rgb).to_rgb();
            assert!(
                rgb.iter().zip(back).all(|(&a, b)| a.abs_diff(b) <= 1),
                "{rgb:?} became {back:?}"
            );
        }
    }

    #[test]
    fn a_grey_pixel_has_the_hue_of_red() {
        let mut hsv = Hsv::from_rgb([100, 100, 100]);
        hsv.saturation = 0.5;
        let [r, g, b] = hsv.to_rgb();
        assert!(r > g && g == b);
    }
}
