//! A command line as it can be pasted into a shell.

/// One word, in quotes where a shell would not take it as it is.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    // Nothing but the quote itself has a meaning between single quotes.
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        for plain in ["paint.lr_blocks=2e-4", "source,tent", "cuda:0", "0..4", "protocol.toml"] {
            assert_eq!(word(plain), plain);
        }
        assert_eq!(word("scenario.domains=[\"fog\"]"), "'scenario.domains=[\"fog\"]'");
        assert_eq!(word("a 'b' $c"), r"'a '\''b'\'' $c'");
        assert_eq!(word(""), "''");
    }

    #[test]
    #[cfg(unix)]
    fn a_shell_reads_back_what_was_meant() {
        for text in ["scenario.domains=[\"fog\", \"snow\"]", "it's $HOME `x` *", "~", "a\\b", ""] {
            let script = format!("printf %s {}", word(text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
