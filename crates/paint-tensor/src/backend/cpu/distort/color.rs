//! Changes of colour of a planar image `[3, H, W]`.

use crate::op::distort::ColorOp;

pub(super) fn apply(op: ColorOp, image: &mut [f32], f: f32) {
    match op {
        ColorOp::Brightness => image.iter_mut().for_each(|x| *x = (f * *x).clamp(0.0, 1.0)),
        ColorOp::Contrast => {
            let n = image.len() / 3;
            let mut sum = 0.0_f64;
            each_pixel(image, |rgb| {
                sum += f64::from(grey(rgb));
                rgb
            });
            let mean = (sum / n as f64) as f32;
            image.iter_mut().for_each(|x| *x = blend(*x, mean, f));
        }
        ColorOp::Saturation => each_pixel(image, |rgb| {
            let grey = grey(rgb);
            rgb.map(|x| blend(x, grey, f))
        }),
        ColorOp::Hue => each_pixel(image, |rgb| turn_hue(rgb, f)),
        ColorOp::Gamma => {
            image.iter_mut().for_each(|x| *x = x.clamp(1e-8, 1.0).powf(f).clamp(0.0, 1.0));
        }
    }
}

fn each_pixel(image: &mut [f32], mut map: impl FnMut([f32; 3]) -> [f32; 3]) {
    let n = image.len() / 3;
    let (r, rest) = image.split_at_mut(n);
    let (g, b) = rest.split_at_mut(n);
    for ((r, g), b) in r.iter_mut().zip(g).zip(b) {
        [*r, *g, *b] = map([*r, *g, *b]);
    }
}

fn blend(x: f32, other: f32, f: f32) -> f32 {
    (f * x + (1.0 - f) * other).clamp(0.0, 1.0)
}

fn grey([r, g, b]: [f32; 3]) -> f32 {
    0.2989 * r + 0.587 * g + 0.114 * b
}

/// RGB to HSV, the hue turned, and back.
fn turn_hue([r, g, b]: [f32; 3], turn: f32) -> [f32; 3] {
    let v = r.max(g).max(b);
    let range = v - r.min(g).min(b);
    let (s, divisor) = if range == 0.0 { (0.0, 1.0) } else { (range / v, range) };
    let [rc, gc, bc] = [r, g, b].map(|x| (v - x) / divisor);
    let sector = if v == r {
        bc - gc
    } else if v == g {
        2.0 + rc - bc
    } else {
        4.0 + gc - rc
    };
    let h = ((sector / 6.0 + 1.0) % 1.0 + turn).rem_euclid(1.0) * 6.0;
    let f = h - h.floor();
    let p = (v * (1.0 - s)).clamp(0.0, 1.0);
    let q = (v * (1.0 - s * f)).clamp(0.0, 1.0);
    let t = (v * (1.0 - s * (1.0 - f))).clamp(0.0, 1.0);
    match h.floor() as usize % 6 {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_turn_makes_red_green_and_grey_stays() {
        let mut image = [1.0, 0.5, 0.0, 0.5, 0.0, 0.5];
        apply(ColorOp::Hue, &mut image, 1.0 / 3.0);
        let close =
            image.iter().zip([0.0, 0.5, 1.0, 0.5, 0.0, 0.5]).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close, "{image:?}");
    }

    #[test]
    fn factors_of_one_change_nothing() {
        let image = [0.1, 0.9, 0.4, 0.3, 0.7, 0.2];
        for op in ColorOp::ALL {
            let mut copy = image;
            apply(op, &mut copy, if op == ColorOp::Hue { 0.0 } else { 1.0 });
            assert!(image.iter().zip(copy).all(|(a, b)| (a - b).abs() < 1e-6), "{op:?}: {copy:?}");
        }
    }
}
