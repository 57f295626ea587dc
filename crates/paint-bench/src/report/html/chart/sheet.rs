//! The sheet a chart is drawn on: a plot with room for numbers on its left and names below, as inline SVG.

use std::fmt::Write as _;

use paint_run::escape::html as escape;

use super::scale::{Scale, number};

/// The width of every sheet.
pub(crate) const WIDTH: f64 = 900.0;
/// Where plots begin.
pub(crate) const LEFT: f64 = 56.0;
pub(crate) const TOP: f64 = 12.0;
/// The height of most plots.
pub(crate) const PLOT: f64 = 260.0;
/// The width of a letter, rather too large than too small.
pub(crate) const LETTER: f64 = 7.0;
/// The most room below a plot for slanted names.
const FOOT: f64 = 96.0;

/// A place on the horizontal axis: a line across the plot, and a name below it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) name: String,
}

/// A chart in the making.
pub(crate) struct Sheet {
    svg: String,
    /// The end of the plot on the right.
    pub(crate) right: f64,
    /// The end of the plot at the bottom.
    pub(crate) bottom: f64,
}

impl Sheet {
    /// A plot of some height, with some room on its right and below.
    pub(crate) fn new(title: &str, height: f64, [right, below]: [f64; 2]) -> Self {
        let (right, bottom) = (WIDTH - right, TOP + height);
        let title = escape(title);
        let svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{title}\">",
            bottom + below
        );
        Self { svg, right, bottom }
    }

    /// A plot of some height with room for the names of its marks.
    pub(crate) fn with_marks(title: &str, height: f64, marks: &[Mark]) -> Self {
        let names = || marks.iter().map(|mark| mark.name.as_str());
        Self::new(title, height, [lean(names().next_back()), foot(names())])
    }

    /// Where a share of the plot's width lies.
    pub(crate) fn x(&self, share: f64) -> f64 {
        LEFT + (self.right - LEFT) * share
    }

    /// Where a share of the plot's height lies, from the bottom.
    pub(crate) fn y(&self, share: f64) -> f64 {
        self.bottom - (self.bottom - TOP) * share
    }

    /// Anything else.
    pub(crate) fn draw(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.svg.write_fmt(element);
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: &str, what: &str) {
        let what = escape(what);
        self.draw(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{what}</text>"
        ));
    }

    /// A line across the plot at each tick, with its number on the left.
    pub(crate) fn horizontal_ticks(&mut self, scale: Scale) {
        for tick in scale.ticks() {
            let (at, right) = (self.y(scale.at(tick)), self.right);
            self.draw(format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            ));
            self.text(LEFT - 6.0, at + 4.0, "end", &number(tick));
        }
    }

    /// A line down the plot at each tick, with its number below.
    pub(crate) fn vertical_ticks(&mut self, scale: Scale) {
        for tick in scale.ticks() {
            let at = self.x(scale.at(tick));
            self.vertical_line(at);
            self.text(at, self.bottom + 16.0, "middle", &number(tick));
        }
    }

    /// A line down the plot at each mark, with its name leaning away below.
    pub(crate) fn marks(&mut self, marks: &[Mark], x: impl Fn(f64) -> f64) {
        for mark in marks {
            let at = x(mark.at);
            self.vertical_line(at);
            self.slanted(at + 4.0, &mark.name);
        }
    }

    fn vertical_line(&mut self, at: f64) {
        let bottom = self.bottom;
        self.draw(format_args!(
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
        ));
    }

    /// A name that begins below the plot and leans to the right.
    pub(crate) fn slanted(&mut self, x: f64, name: &str) {
        let (y, name) = (self.bottom + 14.0, escape(name));
        self.draw(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"start\" transform=\"rotate(35 {x:.1} {y:.1})\">{name}</text>"
        ));
    }

    pub(crate) fn finish(self) -> String {
        self.svg + "</svg>"
    }
}

/// The room that the longest of some names takes.
pub(crate) fn longest<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    names.map(|name| name.chars().count()).max().unwrap_or(0) as f64 * LETTER
}

/// The room below a plot for slanted names.
pub(crate) fn foot<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    (longest(names) * 0.6 + 24.0).min(FOOT)
}

/// The room on the right of a plot into which the last slanted name leans.
pub(crate) fn lean(last: Option<&str>) -> f64 {
    longest(last.into_iter()) * 0.82 + 10.0
}
