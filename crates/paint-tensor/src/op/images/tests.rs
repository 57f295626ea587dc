use super::*;

const SIZE: [usize; 2] = [3, 4];

/// Two images of 3 x 4 pixels; pixel `i` of channel `c` of image `n` is `20 i + 5 c + 100 n`, modulo 256.
fn images() -> (Images, Vec<u8>) {
    let bytes: Vec<u8> =
        (0..72).map(|at| (20 * (at % 12) + 5 * (at / 12 % 3) + 100 * (at / 36)) as u8).collect();
    (Images::new(&bytes, SIZE, &Device::cpu()).unwrap(), bytes)
}

fn pixel(bytes: &[u8], n: usize, c: usize, y: usize, x: usize) -> f32 {
    f32::from(bytes[36 * n + 12 * c + 4 * y + x]) / 255.0
}

fn batch(images: &Images, draw: Draw, edge: Edge) -> Vec<f32> {
    images.compose(&[draw], SIZE, edge).unwrap().to_vec().unwrap()
}

#[test]
fn a_plain_view_is_the_stored_image() {
    let (images, bytes) = images();
    let got = batch(&images, Draw::plain(View::new(1)), Edge::Zeros);
    for (at, got) in got.iter().enumerate() {
        assert_eq!(*got, f32::from(bytes[36 + at]) / 255.0);
    }
}

#[test]
fn a_shifted_and_turned_view_reads_the_right_pixels_and_its_edge() {
    let (images, bytes) = images();
    // Two rows up, one column to the right, then left and right exchanged.
    let view = View { matrix: [1.0, 0.0, -2.0, 0.0, -1.0, 4.0], ..View::new(0) };
    let zeros = batch(&images, Draw::plain(view), Edge::Zeros);
    let mirrored = batch(&images, Draw::plain(view), Edge::Reflect);
    for (c, y, x) in [(0, 0, 0), (1, 0, 3), (2, 1, 2), (0, 2, 0), (1, 2, 1), (2, 2, 3)] {
        let (row, column) = (y as i32 - 2, 4 - x as i32);
        let at = 12 * c + 4 * y + x;
        let inside = (0..3).contains(&row) && (0..4).contains(&column);
        let mirror = |i: i32, n: i32| {
            if i < 0 {
                -i
            } else if i >= n {
                2 * n - 2 - i
            } else {
                i
            }
        };
        let expected = pixel(&bytes, 0, c, mirror(row, 3) as usize, mirror(column, 4) as usize);
        assert_eq!(zeros[at], if inside { expected } else { 0.0 }, "{c} {y} {x}");
        assert_eq!(mirrored[at], expected, "{c} {y} {x}");
    }
}

#[test]
fn stretching_by_two_interpolates_between_pixel_centres() {
    let (images, bytes) = images();
    let draw = Draw::plain(View::stretched(0, SIZE, [6, 8]));
    let got = images.compose(&[draw], [6, 8], Edge::Zeros).unwrap().to_vec().unwrap();
    let p = |y, x| pixel(&bytes, 0, 0, y, x);
    assert!((got[0] - p(0, 0)).abs() < 1e-6, "a corner is its own neighbour");
    let expected =
        0.75 * (0.75 * p(0, 0) + 0.25 * p(0, 1)) + 0.25 * (0.75 * p(1, 0) + 0.25 * p(1, 1));
    assert!((got[8 + 1] - expected).abs() < 1e-6);
}

#[test]
fn colours_follow_their_formulas() {
    let (images, bytes) = images();
    let luma = |rgb: [f32; 3]| 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    let rgb = |i: usize| [0, 1, 2].map(|c| f32::from(bytes[12 * c + i]) / 255.0);
    let bright = |i: usize| rgb(i).map(|x| (1.5 * x).min(1.0));
    let mean = (0..12).map(|i| luma(bright(i))).sum::<f32>() / 12.0;
    for tone in [Tone::Natural, Tone::Grey, Tone::Solarized] {
        let view = View { brightness: 1.5, contrast: 0.7, saturation: 1.2, tone, ..View::new(0) };
        let got = batch(&images, Draw::plain(view), Edge::Zeros);
        for i in 0..12 {
            let x = bright(i).map(|x| (0.7 * x + 0.3 * mean).clamp(0.0, 1.0));
            let grey = luma(x);
            let x = x.map(|x| (1.2 * x - 0.2 * grey).clamp(0.0, 1.0));
            let expected = match tone {
                Tone::Natural => x,
                Tone::Grey => [luma(x); 3],
                Tone::Solarized => x.map(|x| if x < 0.5 { x } else { 1.0 - x }),
            };
            for c in 0..3 {
                assert!((got[12 * c + i] - expected[c]).abs() < 1e-5, "{tone:?} {i} {c}");
            }
        }
    }
}

#[test]
fn mixing_cutting_and_erasing_touch_their_pixels_only() {
    let (images, bytes) = images();
    let draw = Draw {
        second: Some(View::new(1)),
        weight: 0.25,
        cut: Rect { top: 1, left: 1, bottom: 3, right: 2 },
        erased: Rect { top: 2, left: 0, bottom: 3, right: 2 },
        ..Draw::plain(View::new(0))
    };
    let got = batch(&images, draw, Edge::Zeros);
    let at = |y: usize, x: usize| got[12 + 4 * y + x];
    let p = |n, y, x| pixel(&bytes, n, 1, y, x);
    assert!((at(0, 3) - (0.25 * p(0, 0, 3) + 0.75 * p(1, 0, 3))).abs() < 1e-6);
    assert_eq!(at(1, 1), p(1, 1, 1));
    assert_eq!((at(2, 0), at(2, 1)), (0.5, 0.5));
    assert!((at(2, 2) - (0.25 * p(0, 2, 2) + 0.75 * p(1, 2, 2))).abs() < 1e-6);
    assert_eq!((draw.cut.area(), Rect::default().area()), (2, 0));
}

#[test]
fn an_image_that_is_not_there_and_bytes_that_make_none_are_refused() {
    let (images, _) = images();
    let error = images.compose(&[Draw::plain(View::new(2))], SIZE, Edge::Zeros).unwrap_err();
    assert!(error.to_string().contains("index 2"), "{error}");
    assert!(Images::new(&[0; 35], SIZE, &Device::cpu()).is_err());
}
