//! Named dots as inline SVG: each name beside its dot, none on another.

use std::fmt::Write as _;

use super::embed::escape;
use super::plot::{LEFT, LETTER, PLOT, Scale, TOP, WIDTH, horizontal_grid, number, open, text};

const RIGHT: f64 = 150.0;
const RADIUS: f64 = 6.0;
/// The height of a name.
const LINE: f64 = 13.0;

/// One dot.
pub(super) struct Dot {
    pub(super) label: String,
    pub(super) colour: String,
    pub(super) at: (f64, f64),
}

/// A rectangle by its left, top, right and bottom.
#[derive(Debug, Clone, Copy)]
struct Area([f64; 4]);

impl Area {
    fn meets(self, other: Self) -> bool {
        let (Self([a, b, c, d]), Self([e, f, g, h])) = (self, other);
        a < g && e < c && b < h && f < d
    }

    fn lies_inside_the_plot(self) -> bool {
        let Self([left, top, right, bottom]) = self;
        left >= LEFT && right <= WIDTH && top >= TOP && bottom <= TOP + PLOT
    }

    fn of_dot((x, y): (f64, f64)) -> Self {
        Self([x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS])
    }
}

/// Where the name of each dot stands: beside it if there is room, otherwise as near as there is.
fn places(dots: &[((f64, f64), usize)], taken: Area) -> Vec<Area> {
    let mut placed: Vec<Area> = Vec::new();
    for &((x, y), letters) in dots {
        let width = letters as f64 * LETTER;
        let area = |left: f64, middle: f64| {
            Area([left, middle - LINE / 2.0, left + width, middle + LINE / 2.0])
        };
        let rows = (0..20).flat_map(|row| [f64::from(row), -f64::from(row)]);
        let sides = |row: f64| {
            let away = if row == 0.0 { 10.0 } else { 16.0 };
            [x + away, x - away - width].map(|left| area(left, y + row * LINE))
        };
        let is_free = |area: &Area| {
            area.lies_inside_the_plot()
                && !area.meets(taken)
                && placed.iter().all(|other| !area.meets(*other))
                && dots.iter().all(|(dot, _)| !area.meets(Area::of_dot(*dot)))
        };
        let free = rows.flat_map(sides).find(is_free);
        placed.push(free.unwrap_or_else(|| area(x + 10.0, y)));
    }
    placed
}

/// Named dots; the horizontal axis is logarithmic.
pub(super) fn scatter(title: &str, axes: [&str; 2], dots: &[Dot]) -> String {
    let logs = dots.iter().map(|dot| dot.at.0.max(1e-9).log10());
    let (low, high) = logs.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    let (low, high) = (low - 0.15, (high + 0.15).max(low + 0.5));
    let scale = Scale::around(dots.iter().map(|dot| dot.at.1));
    let right = WIDTH - RIGHT;
    let x = |value: f64| LEFT + (right - LEFT) * (value.max(1e-9).log10() - low) / (high - low);
    let y = |value: f64| TOP + PLOT * (1.0 - scale.at(value));
    let mut svg = open(TOP + PLOT + 44.0, title);
    horizontal_grid(&mut svg, scale, right, y);
    for power in -6..6 {
        for digit in [1.0, 2.0, 5.0] {
            let value = digit * 10_f64.powi(power);
            let at = value.log10();
            if at < low || at > high {
                continue;
            }
            let place = x(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
                TOP + PLOT
            );
            text(&mut svg, place, TOP + PLOT + 16.0, "middle", &number(value));
        }
    }
    text(&mut svg, right, TOP + PLOT + 36.0, "end", axes[0]);
    text(&mut svg, LEFT + 6.0, TOP + 10.0, "start", axes[1]);
    let axis_name = axes[1].chars().count() as f64 * LETTER;
    let taken = Area([LEFT, TOP, LEFT + 6.0 + axis_name, TOP + LINE]);
    let at: Vec<((f64, f64), usize)> =
        dots.iter().map(|dot| ((x(dot.at.0), y(dot.at.1)), dot.label.chars().count())).collect();
    for ((dot, ((px, py), _)), Area([left, top, end, bottom])) in
        dots.iter().zip(&at).zip(places(&at, taken))
    {
        let (middle, is_right) = (f64::midpoint(top, bottom), left > *px);
        if (middle - py).abs() > 1.0 {
            let edge = if is_right { left - 2.0 } else { end + 2.0 };
            let _ = write!(
                svg,
                "<line class=\"leader\" x1=\"{px:.1}\" y1=\"{py:.1}\" x2=\"{edge:.1}\" y2=\"{middle:.1}\"/>"
            );
        }
        let _ = write!(
            svg,
            "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"{RADIUS}\" fill=\"{}\"><title>{}: {:.2} %, {} ms</title></circle>",
            dot.colour,
            escape(&dot.label),
            dot.at.1,
            number(dot.at.0)
        );
        let (edge, anchor) = if is_right { (left, "start") } else { (end, "end") };
        text(&mut svg, edge, middle + 4.0, anchor, &dot.label);
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_crowd_lie_on_no_other_name_and_on_no_dot() {
        let crowd: Vec<((f64, f64), usize)> =
            (0..20).map(|i| ((400.0 + f64::from(i % 3), 150.0 + 4.0 * f64::from(i)), 8)).collect();
        let taken = Area([LEFT, TOP, LEFT + 80.0, TOP + LINE]);
        let placed = places(&crowd, taken);
        for (i, area) in placed.iter().enumerate() {
            assert!(area.lies_inside_the_plot(), "{area:?}");
            assert!(placed[..i].iter().all(|other| !area.meets(*other)), "{i}: {area:?}");
            assert!(crowd.iter().all(|(dot, _)| !area.meets(Area::of_dot(*dot))), "{i}");
        }
    }
}
