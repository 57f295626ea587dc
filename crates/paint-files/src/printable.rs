//! Text from files, made safe to print.

use std::borrow::Cow;

/// `text` without anything a terminal would obey: control characters (escape sequences, newlines, tabs) and the marks
/// that reorder characters are replaced by Rust's escapes, `\u{1b}` for example.
///
/// Names of files, classes, arrays and domains come from strangers; every line that shows one to a user passes it
/// through here. Text that needs no change is borrowed.
///
/// ```
/// assert_eq!(paint_files::printable("naïve \u{1b}[2Jcat\n"), r"naïve \u{1b}[2Jcat\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Control characters (C0, delete, C1), line separators, and the marks of direction, which can make a name read as
/// another. Joiners stay: Persian, Indic scripts and emoji are written with them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left_and_ordinary_text_is_borrowed() {
        for text in ["", "cat", "Bär", "日本語", "🦊", "a b/c.png", r"C:\images", "\"quoted\""]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        let all: String = (0..=0x3000).filter_map(char::from_u32).collect();
        let shown = printable(&all);
        assert!(!shown.contains(char::is_control));
        assert_eq!(printable("\u{1b}]0;title\u{7}"), r"\u{1b}]0;title\u{7}");
        assert_eq!(printable("a\u{202e}gpj.exe"), r"a\u{202e}gpj.exe");
        assert_eq!(printable("\u{9b}31m"), r"\u{9b}31m");
        assert_eq!(printable("tab\tnew\r\n"), r"tab\tnew\r\n");
    }
}
