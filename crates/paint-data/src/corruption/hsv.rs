//! Hue, saturation and value without the hue.
//!
//! Both corruptions that work in HSV keep the hue, and with it the place of every channel between the smallest and the
//! largest: with `V = max`, `S = (max - min) / max`, a channel is `V (1 - S t)` where `t = (max - channel) / (max - min)`.
//! So no hue is ever computed. All in `[0, 1]`, double precision as the original.

/// One pixel in terms of saturation and value.
pub(super) struct Hsv {
    /// `S`.
    pub(super) saturation: f64,
    /// `V`.
    pub(super) value: f64,
    /// `t` of each channel: 0 for the largest, 1 for the smallest.
    depth: [f64; 3],
}

impl Hsv {
    #[inline]
    pub(super) fn from_rgb(rgb: [u8; 3]) -> Self {
        let [r, g, b] = rgb;
        let (max, min) = (r.max(g).max(b), r.min(g).min(b));
        let value = f64::from(max) / 255.0;
        if max == min {
            return Self { saturation: 0.0, value, depth: [0.0; 3] };
        }
        let range = f64::from(max - min);
        Self {
            saturation: range / f64::from(max),
            value,
            depth: rgb.map(|channel| f64::from(max - channel) / range),
        }
    }

    /// Back to bytes, truncated.
    #[inline]
    pub(super) fn to_rgb(&self) -> [u8; 3] {
        self.depth.map(|t| (self.value * (1.0 - self.saturation * t) * 255.0) as u8)
    }
}
