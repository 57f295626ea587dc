//! Names from strangers (rows, domains, classes, files), made harmless: one function for each format that is written.
//!
//! All begin with [`printable`]: no file carries what a terminal would obey, and no name ends a line that it stands
//! in. What is left is put so that the format shows it and does not act on it.

use paint_files::printable;

/// A field of a CSV file.
pub fn csv(field: &str) -> String {
    let field = printable(field);
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into_owned()
    }
}

/// Text in Markdown, inside a table too.
pub fn markdown(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied().unwrap_or(' ');
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' => out.extend(['\\', c]),
            // Inside a word an underscore is a letter: `shot_noise` stays as it is.
            '_' if !(before.is_alphanumeric() && after.is_alphanumeric()) => out.push_str("\\_"),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// Code inside a line of Markdown, outside tables.
pub fn markdown_code(text: &str) -> String {
    let text = printable(text);
    // A fence must be longer than any run of backticks within.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if longest > 0 { " " } else { "" };
    format!("{fence}{gap}{text}{gap}{fence}")
}

/// Text in LaTeX.
pub fn latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '{' | '}' | '$' | '&' | '#' | '_' | '%' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// Text in HTML and SVG, inside an attribute too.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A document in HTML, whose own lines stay apart.
pub fn html_lines(text: &str) -> String {
    text.lines().map(html).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\r\n| b <img src=x onerror='y'> & \"c\", `d` $e$ {f}_g_ %h #i ~j ^k \\l *m* [n](o)";

    #[test]
    fn no_format_passes_on_a_line_break_or_an_escape_sequence() {
        for escape in [csv, markdown, markdown_code, latex, html] {
            let text = escape(HOSTILE);
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn each_format_shows_what_it_would_act_on() {
        assert!(csv(HOSTILE).starts_with('"') && csv("a \"b\"") == "\"a \"\"b\"\"\"");
        let text = markdown(HOSTILE);
        assert!(text.contains("\\| b &lt;img src=x") && !text.contains('<'), "{text}");
        assert!(text.contains("\\`d\\`") && text.contains("\\*m\\* \\[n\\](o)"), "{text}");
        let text = latex("\\ {a}_b %c #d &e $f ~g ^h <i>");
        let expected = "\\textbackslash{} \\{a\\}\\_b \\%c \\#d \\&e \\$f \\textasciitilde{}g \\textasciicircum{}h \\textless{}i\\textgreater{}";
        assert_eq!(text, expected);
        assert_eq!(html("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
        assert_eq!(markdown_code("a `b` ``c"), "``` a `b` ``c ```");
        assert_eq!(markdown_code("a"), "`a`");
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for name in ["shot_noise", "L_mi + L_ic + P_s", "eta=0.5", "Bär (a)", "paint seed 0"] {
            assert_eq!((csv(name), markdown(name)), (name.to_owned(), name.to_owned()));
        }
        assert_eq!(markdown("_a_ b_"), "\\_a\\_ b\\_");
    }
}
