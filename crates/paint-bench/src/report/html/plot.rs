//! Line plots and bars as inline SVG.

use std::fmt::Write as _;

use super::embed::escape;

pub(super) const WIDTH: f64 = 1080.0;
pub(super) const LEFT: f64 = 46.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const PLOT: f64 = 260.0;
/// The most room below for slanted names.
const FOOT: f64 = 96.0;
/// The smallest distance between two names on the right.
const APART: f64 = 14.0;

/// The width of a letter, rather too large than too small.
pub(super) const LETTER: f64 = 7.0;

/// The colour of a row: twelve, then the same ones nearer to the ink.
pub(super) fn colour(row: usize) -> String {
    let plain = format!("var(--s{})", row % 12);
    if row < 12 { plain } else { format!("color-mix(in srgb,{plain} 55%,var(--fg))") }
}

/// The room that the longest of some names takes.
fn longest<'a>(names: impl Iterator<Item = &'a String>) -> f64 {
    names.map(|name| name.chars().count()).max().unwrap_or(0) as f64 * LETTER
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Stroke {
    Plain,
    /// Broken, for numbers of others.
    Dashed,
    /// Behind those that the picture is about.
    Faint,
}

/// One line.
pub(super) struct Series {
    pub(super) label: String,
    pub(super) colour: String,
    pub(super) stroke: Stroke,
    pub(super) points: Vec<(f64, f64)>,
}

/// What stands along the horizontal axis: a line at each place, a name behind it.
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) name: String,
}

/// The scale of an axis.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// Round ends around some values.
    pub(super) fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return Self { low: 0.0, high: 1.0, step: 0.5 };
        }
        let room = (high - low).max(high.abs() * 0.05).max(1e-9);
        let raw = room / 4.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
        let step = step.unwrap_or(10.0 * power);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        // Equal values on a tick get room below: above 100 percent there is nothing.
        match (low < high, low >= step) {
            (true, _) => Self { low, high, step },
            (false, true) => Self { low: low - step, high, step },
            (false, false) => Self { low, high: low + step, step },
        }
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(move |i| self.low + i as f64 * self.step)
    }

    pub(super) fn at(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE)
    }
}

pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn open(height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    )
}

pub(super) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    let what = escape(what);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{what}</text>");
}

pub(super) fn horizontal_grid(svg: &mut String, scale: Scale, right: f64, y: impl Fn(f64) -> f64) {
    for tick in scale.ticks() {
        let at = y(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
        );
        text(svg, LEFT - 6.0, at + 4.0, "end", &number(tick));
    }
}

/// Lines over a stream; names of the lines stand at their ends.
pub(super) fn lines(title: &str, series: &[Series], marks: &[Mark]) -> String {
    let all = || series.iter().flat_map(|s| &s.points);
    let (first, last) = all().fold((f64::MAX, f64::MIN), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let scale = Scale::around(all().map(|point| point.1));
    let span = (last - first).max(f64::MIN_POSITIVE);
    // Names stand on the right; the last of those below leans out there too.
    let right = WIDTH - (longest(series.iter().map(|s| &s.label)) + 26.0).clamp(120.0, WIDTH / 2.0);
    let x = |value: f64| LEFT + (right - LEFT) * ((value - first) / span).clamp(0.0, 1.0);
    let y = |value: f64| TOP + PLOT * (1.0 - scale.at(value));
    let foot = (longest(marks.iter().map(|mark| &mark.name)) * 0.6 + 24.0).min(FOOT);
    let mut svg = open(TOP + PLOT + foot, title);
    horizontal_grid(&mut svg, scale, right, y);
    for mark in marks {
        let at = x(mark.at);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
            TOP + PLOT
        );
        slanted(&mut svg, at + 4.0, TOP + PLOT + 14.0, &mark.name);
    }
    for one in series {
        let path: Vec<String> =
            one.points.iter().map(|p| format!("{:.1} {:.1}", x(p.0), y(p.1))).collect();
        let look = match one.stroke {
            Stroke::Plain => "",
            Stroke::Dashed => " stroke-dasharray=\"5 4\"",
            Stroke::Faint => " opacity=\"0.4\"",
        };
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"{look}><title>{}</title></polyline>",
            path.join(" "),
            one.colour,
            escape(&one.label)
        );
        if one.points.len() <= 40 && one.stroke != Stroke::Faint {
            for p in &one.points {
                let _ = write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{}\"><title>{}: {:.2}</title></circle>",
                    x(p.0),
                    y(p.1),
                    one.colour,
                    escape(&one.label),
                    p.1
                );
            }
        }
    }
    let ends = series.iter().filter_map(|s| Some((s, y(s.points.last()?.1)))).collect();
    for (one, at) in apart(ends) {
        let x = right + 8.0;
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"3\" fill=\"{}\"/>",
            at - 1.5,
            one.colour
        );
        text(&mut svg, x + 14.0, at + 4.0, "start", &one.label);
    }
    svg + "</svg>"
}

/// Names in their order, moved so that none lies on another.
fn apart(mut ends: Vec<(&Series, f64)>) -> Vec<(&Series, f64)> {
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    for i in 1..ends.len() {
        ends[i].1 = ends[i].1.max(ends[i - 1].1 + APART);
    }
    let beyond = ends.last().map_or(0.0, |end| (end.1 - (TOP + PLOT)).max(0.0));
    ends.iter_mut().for_each(|end| end.1 -= beyond);
    ends
}

fn slanted(svg: &mut String, x: f64, y: f64, name: &str) {
    let name = escape(name);
    let _ = write!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"start\" transform=\"rotate(35 {x:.1} {y:.1})\">{name}</text>"
    );
}

/// One horizontal bar.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) colour: String,
    pub(super) value: f64,
    /// Half the length of the whisker.
    pub(super) spread: Option<f64>,
    /// Another's number, a tick on the bar.
    pub(super) beside: Option<f64>,
}

/// Horizontal bars from zero.
pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    const ROW: f64 = 26.0;
    const VALUE: f64 = 50.0;
    let top = bars.iter().map(|bar| bar.value.max(bar.beside.unwrap_or(0.0)));
    let scale = Scale { low: 0.0, high: Scale::around(top.chain([0.0])).high, step: 1.0 };
    let names = (longest(bars.iter().map(|bar| &bar.label)) + 16.0).clamp(60.0, WIDTH / 2.0);
    let x = |value: f64| names + (WIDTH - names - 90.0) * scale.at(value).clamp(0.0, 1.0);
    let mut svg = open(ROW * bars.len() as f64 + 6.0, title);
    for (i, bar) in bars.iter().enumerate() {
        let y = ROW * i as f64 + 4.0;
        text(&mut svg, names - 8.0, y + 14.0, "end", &bar.label);
        let _ = write!(
            svg,
            "<rect x=\"{names:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"18\" rx=\"3\" fill=\"{}\"><title>{}: {:.2}</title></rect>",
            x(bar.value) - names,
            bar.colour,
            escape(&bar.label),
            bar.value
        );
        let mut end = x(bar.value);
        if let Some(spread) = bar.spread {
            end = x(bar.value + spread);
            let _ = write!(
                svg,
                "<path class=\"whisker\" d=\"M{:.1} {:.1}H{:.1}\"/>",
                x(bar.value - spread),
                y + 9.0,
                end
            );
        }
        if let Some(beside) = bar.beside {
            // The value stands behind the bar, or behind the tick where it would be struck through.
            if (end..end + VALUE).contains(&x(beside)) {
                end = x(beside);
            }
            let _ = write!(
                svg,
                "<path class=\"beside\" d=\"M{0:.1} {1:.1}V{2:.1}\"><title>paper: {beside:.2}</title></path>",
                x(beside),
                y - 2.0,
                y + 20.0
            );
        }
        text(&mut svg, end + 6.0, y + 14.0, "start", &format!("{:.2}", bar.value));
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_every_value() {
        let scale = Scale::around([61.3, 74.9].into_iter());
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [60.0, 65.0, 70.0, 75.0]);
        let flat = Scale::around([50.0].into_iter());
        assert!(flat.low <= 50.0 && flat.high >= 50.0 && flat.high > flat.low);
        assert_eq!(Scale::around([100.0, 100.0].into_iter()).high, 100.0);
        let zero = Scale::around([0.0].into_iter());
        assert!(zero.low == 0.0 && zero.high > 0.0);
    }

    #[test]
    fn names_at_the_ends_of_lines_keep_their_distance() {
        let series = |label: &str, y: f64| Series {
            label: label.into(),
            colour: colour(0),
            stroke: Stroke::Plain,
            points: vec![(0.0, y), (1.0, y)],
        };
        let all = [series("a", 50.0), series("b", 50.1), series("c", 50.2)];
        let placed = apart(all.iter().map(|s| (s, s.points[1].1)).collect());
        assert!(placed.windows(2).all(|pair| pair[1].1 - pair[0].1 >= APART));
        let svg = lines("t", &all, &[Mark { at: 0.0, name: "<fog>".into() }]);
        assert!(svg.contains("&lt;fog&gt;") && svg.matches("<polyline").count() == 3);
    }

    #[test]
    fn a_long_name_at_the_end_of_a_line_has_its_room() {
        let label = "L_mi + L_ic + P_s + F_blocks".to_owned();
        let room = label.len() as f64 * LETTER;
        let one = Series {
            label,
            colour: colour(0),
            stroke: Stroke::Plain,
            points: vec![(0.0, 1.0), (1.0, 2.0)],
        };
        let svg = lines("t", &[one], &[]);
        let start = svg.rsplit("<text x=\"").next().and_then(|rest| rest.split('"').next());
        let start: f64 = start.unwrap().parse().unwrap();
        assert!(start + room <= WIDTH, "{start} + {room}");
    }

    #[test]
    fn twenty_rows_have_twenty_colours() {
        let mut all: Vec<String> = (0..20).map(colour).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 20);
    }
}
