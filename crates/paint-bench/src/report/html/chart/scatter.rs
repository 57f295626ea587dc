//! Named dots: each name beside its dot, none on another.

use paint_run::escape::html as escape;

use super::scale::{Scale, number};
use super::sheet::{LEFT, LETTER, PLOT, Sheet, TOP, WIDTH};

const RIGHT: f64 = 120.0;
const RADIUS: f64 = 6.0;
/// The height of a name.
const LINE: f64 = 13.0;

/// One dot.
pub(crate) struct Dot {
    pub(crate) label: String,
    pub(crate) colour: String,
    pub(crate) at: (f64, f64),
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

/// The chart. The horizontal axis is logarithmic; `axes` are the names of both.
pub(crate) fn scatter(title: &str, axes: [&str; 2], dots: &[Dot]) -> String {
    let across = Scale::logarithmic(dots.iter().map(|dot| dot.at.0));
    let up = Scale::around(dots.iter().map(|dot| dot.at.1));
    let mut sheet = Sheet::new(title, PLOT, [RIGHT, 44.0]);
    sheet.horizontal_ticks(up);
    sheet.vertical_ticks(across);
    sheet.text(sheet.right, sheet.bottom + 36.0, "end", axes[0]);
    sheet.text(LEFT + 6.0, TOP + 10.0, "start", axes[1]);
    let axis_name = axes[1].chars().count() as f64 * LETTER;
    let taken = Area([LEFT, TOP, LEFT + 6.0 + axis_name, TOP + LINE]);
    let place = |dot: &Dot| {
        let at = (sheet.x(across.at(dot.at.0)), sheet.y(up.at(dot.at.1)));
        (at, dot.label.chars().count())
    };
    let at: Vec<((f64, f64), usize)> = dots.iter().map(place).collect();
    for ((dot, ((x, y), _)), Area([left, top, end, bottom])) in
        dots.iter().zip(&at).zip(places(&at, taken))
    {
        let (middle, is_right) = (f64::midpoint(top, bottom), left > *x);
        if (middle - y).abs() > 1.0 {
            let edge = if is_right { left - 2.0 } else { end + 2.0 };
            sheet.draw(format_args!(
                "<line class=\"leader\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{edge:.1}\" y2=\"{middle:.1}\"/>"
            ));
        }
        sheet.draw(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"{}\"><title>{}: {:.2}, {}</title></circle>",
            dot.colour,
            escape(&dot.label),
            dot.at.1,
            number(dot.at.0)
        ));
        let (edge, anchor) = if is_right { (left, "start") } else { (end, "end") };
        sheet.text(edge, middle + 4.0, anchor, &dot.label);
    }
    sheet.finish()
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
