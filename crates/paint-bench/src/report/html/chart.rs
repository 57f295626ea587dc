//! The kit that every chart is drawn with: one sheet, one set of scales, ticks, names and colours.

mod bars;
mod colour;
mod groups;
mod lines;
mod matrix;
mod scale;
mod scatter;
mod sheet;

pub(super) use bars::{Bar, bars};
pub(super) use colour::{colour, hue};
pub(super) use groups::{Group, groups};
pub(super) use lines::{Series, Stroke, lines};
pub(super) use matrix::matrix;
pub(super) use scatter::{Dot, scatter};
pub(super) use sheet::{Mark, Sheet};

/// A chart on a page. It keeps its letters readable on a narrow screen, where the reader scrolls it sideways.
pub(super) fn on_page(svg: &str) -> String {
    format!("<div class=\"chart\">{svg}</div>")
}
