//! What every page has: head, style, the switch between dark and light, and sections with links to them.

use std::fmt::Write as _;

use paint_run::escape::html as escape;

const STYLE: &str =
    concat!(include_str!("palette.css"), include_str!("chart.css"), include_str!("page.css"));
const SCRIPT: &str = include_str!("page.js");

/// A page in the making.
pub(super) struct Page {
    title: String,
    what: String,
    facts: String,
    warnings: String,
    links: String,
    body: String,
}

impl Page {
    /// A page with a title and a sentence on what it shows.
    pub(super) fn new(title: &str, what: &str) -> Self {
        let [facts, warnings, links, body] = [const { String::new() }; 4];
        Self { title: escape(title), what: escape(what), facts, warnings, links, body }
    }

    /// A fact about everything on the page, in a word or two.
    pub(super) fn fact(&mut self, fact: &str) {
        let _ = write!(self.facts, "<span>{}</span>", escape(fact));
    }

    /// What has to be said first. The head stands out; the items are below it.
    pub(super) fn warn(&mut self, head: &str, text: &str, items: impl Iterator<Item = String>) {
        self.warnings.push_str(&warning(head, text, items));
    }

    /// A section, and a link to it.
    pub(super) fn section(&mut self, id: &str, title: &str, text: &str, content: &str) {
        let (title, text) = (escape(title), escape(text));
        let _ = write!(self.links, "<a href=\"#{id}\">{title}</a>");
        let _ = write!(
            self.body,
            "<section id=\"{id}\"><h2>{title}</h2><p>{text}</p>{content}</section>"
        );
    }

    /// Content without a section of its own.
    pub(super) fn add(&mut self, content: &str) {
        self.body.push_str(content);
    }

    /// The file.
    pub(super) fn finish(self) -> String {
        let Self { title, what, facts, warnings, links, body } = self;
        let facts =
            if facts.is_empty() { facts } else { format!("<p class=\"facts\">{facts}</p>") };
        let nav = if links.is_empty() { links } else { format!("<nav>{links}</nav>") };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body>\
             <header><div><h1>{title}</h1><p>{what}</p></div>\
             <button id=\"theme\" title=\"dark or light\">◐</button></header>\
             {facts}{warnings}{nav}<main>{body}</main><script>{SCRIPT}</script></body></html>\n"
        )
    }
}

/// A box that stands out.
pub(super) fn warning(head: &str, text: &str, items: impl Iterator<Item = String>) -> String {
    let mut html = format!("<div class=\"warning\"><b>{}</b> {}<ul>", escape(head), escape(text));
    for item in items {
        let _ = write!(html, "<li>{}</li>", escape(&item));
    }
    html + "</ul></div>"
}
