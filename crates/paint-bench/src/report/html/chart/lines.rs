//! Lines over a stream, each with its name at its end.

use paint_run::escape::html as escape;

use super::scale::Scale;
use super::sheet::{Mark, PLOT, Sheet, WIDTH, foot, longest};

/// The smallest distance between two names on the right.
const APART: f64 = 14.0;
/// A line of more points than this has no dots.
const DOTS: usize = 40;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stroke {
    Plain,
    /// Broken, for numbers of others.
    Dashed,
    /// Behind those that the picture is about.
    Faint,
}

/// One line.
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) colour: String,
    pub(crate) stroke: Stroke,
    /// Runs of points; the pen is lifted between them.
    pub(crate) runs: Vec<Vec<(f64, f64)>>,
}

impl Series {
    /// A plain line.
    pub(crate) fn new(label: &str, colour: String, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), colour, stroke: Stroke::Plain, runs: vec![points] }
    }

    pub(crate) fn stroke(self, stroke: Stroke) -> Self {
        Self { stroke, ..self }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.runs.iter().flatten().copied()
    }
}

/// The chart.
pub(crate) fn lines(title: &str, series: &[Series], marks: &[Mark]) -> String {
    let all = || series.iter().flat_map(Series::points);
    let places = all().map(|point| point.0).chain(marks.iter().map(|mark| mark.at));
    let (first, last) = places.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    let span = (last - first).max(f64::MIN_POSITIVE);
    let scale = Scale::around(all().map(|point| point.1));
    // Names of lines stand on the right; the last name below leans out there too.
    let names = longest(series.iter().map(|one| one.label.as_str())) + 26.0;
    let room = [names.clamp(120.0, WIDTH / 2.0), foot(marks.iter().map(|mark| mark.name.as_str()))];
    let mut sheet = Sheet::new(title, PLOT, room);
    let (left, right) = (sheet.x(0.0), sheet.right);
    let x = |value: f64| left + (right - left) * ((value - first) / span).clamp(0.0, 1.0);
    let bottom = sheet.bottom;
    let y = |value: f64| bottom - PLOT * scale.at(value);
    sheet.horizontal_ticks(scale);
    sheet.marks(marks, x);
    for one in series {
        let pen = |(i, p): (usize, &(f64, f64))| {
            format!("{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x(p.0), y(p.1))
        };
        let path: String =
            one.runs.iter().flat_map(|run| run.iter().enumerate().map(pen)).collect();
        let (colour, label) = (&one.colour, escape(&one.label));
        let look = match one.stroke {
            Stroke::Plain => "",
            Stroke::Dashed => " stroke-dasharray=\"5 4\"",
            Stroke::Faint => " opacity=\"0.4\"",
        };
        sheet.draw(format_args!(
            "<path class=\"line\" d=\"{path}\" stroke=\"{colour}\"{look}><title>{label}</title></path>"
        ));
        if one.points().count() <= DOTS && one.stroke != Stroke::Faint && one.runs.len() == 1 {
            for p in one.points() {
                sheet.draw(format_args!(
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{label}: {:.2}</title></circle>",
                    x(p.0),
                    y(p.1),
                    p.1
                ));
            }
        }
    }
    let ends = series.iter().filter_map(|one| Some((one, y(one.points().last()?.1)))).collect();
    for (one, at) in apart(ends, bottom) {
        let (x, top, colour) = (right + 8.0, at - 1.5, &one.colour);
        sheet.draw(format_args!(
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"10\" height=\"3\" fill=\"{colour}\"/>"
        ));
        sheet.text(x + 14.0, at + 4.0, "start", &one.label);
    }
    sheet.finish()
}

/// Names in their order, moved so that none lies on another.
fn apart(mut ends: Vec<(&Series, f64)>, bottom: f64) -> Vec<(&Series, f64)> {
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    for i in 1..ends.len() {
        ends[i].1 = ends[i].1.max(ends[i - 1].1 + APART);
    }
    let beyond = ends.last().map_or(0.0, |end| (end.1 - bottom).max(0.0));
    ends.iter_mut().for_each(|end| end.1 -= beyond);
    ends
}

#[cfg(test)]
mod tests {
    use super::super::sheet::{LETTER, TOP};
    use super::*;

    fn level(label: &str, y: f64) -> Series {
        Series::new(label, "red".into(), vec![(0.0, y), (1.0, y)])
    }

    #[test]
    fn names_at_the_ends_of_lines_keep_their_distance() {
        let all = [level("a", 50.0), level("b", 50.1), level("c", 50.2)];
        let placed = apart(all.iter().map(|s| (s, s.runs[0][1].1)).collect(), TOP + PLOT);
        assert!(placed.windows(2).all(|pair| pair[1].1 - pair[0].1 >= APART));
        let svg = lines("t", &all, &[Mark { at: 0.0, name: "<fog>".into() }]);
        assert!(svg.contains("&lt;fog&gt;") && svg.matches("<path").count() == 3, "{svg}");
    }

    #[test]
    fn a_long_name_at_the_end_of_a_line_has_its_room() {
        let one = level("L_mi + L_ic + P_s + F_blocks", 1.0);
        let room = one.label.len() as f64 * LETTER;
        let svg = lines("t", &[one], &[]);
        let start = svg.rsplit("<text x=\"").next().and_then(|rest| rest.split('"').next());
        let start: f64 = start.unwrap().parse().unwrap();
        assert!(start + room <= WIDTH, "{start} + {room}");
    }

    #[test]
    fn the_pen_is_lifted_between_runs_of_points() {
        let mut one = level("a", 1.0);
        one.runs.push(vec![(2.0, 1.0), (3.0, 2.0)]);
        let svg = lines("t", &[one], &[]);
        let path =
            svg.split("<path class=\"line\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 2), "{path}");
    }
}
