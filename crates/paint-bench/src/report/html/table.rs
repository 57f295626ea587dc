//! Tables, each in a box that scrolls sideways where the screen is narrow.

use std::fmt::Write as _;

use paint_run::escape::html as escape;

/// A table in the making.
pub(super) struct Table {
    html: String,
}

impl Table {
    /// With a row of heads.
    pub(super) fn new(heads: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut table = Self { html: String::from("<div class=\"wide\"><table>") };
        table.line("th", heads);
        table
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.line("td", cells);
    }

    fn line(&mut self, tag: &str, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.html.push_str("<tr>");
        for cell in cells {
            let _ = write!(self.html, "<{tag}>{}</{tag}>", escape(cell.as_ref()));
        }
        self.html.push_str("</tr>");
    }

    pub(super) fn finish(self) -> String {
        self.html + "</table></div>"
    }
}
