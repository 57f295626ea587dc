//! What is told of one name, and how it is laid out for people.

use std::fmt::Write as _;

use paint_settings::{Key, Kind};
use serde::Serialize;
use toml::{Table, Value};

/// All that is known of one name.
#[derive(Debug, Default, Serialize)]
pub struct Explanation {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) what: String,
    /// Label and text of each.
    pub(super) facts: Vec<(&'static str, String)>,
    /// How a key is set, such as `--set paint.KEY=VALUE`.
    pub(super) set: String,
    pub(super) keys: Vec<KeyRow>,
    pub(super) presets: Vec<PresetRow>,
    /// A command to go on with.
    pub(super) next: String,
}

/// One key.
#[derive(Debug, Serialize)]
pub(super) struct KeyRow {
    /// Dotted.
    pub(super) key: String,
    /// None where it depends on the preset, or where leaving the key out means something else.
    pub(super) default: Option<String>,
    pub(super) range: String,
    pub(super) meaning: String,
    /// The values that `paint tune` searches, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) search: Option<String>,
    /// What each name means, where the value is one of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) choices: Vec<(&'static str, String)>,
}

/// One preset.
#[derive(Debug, Serialize)]
pub(super) struct PresetRow {
    pub(super) name: String,
    pub(super) is_default: bool,
    pub(super) meaning: String,
    pub(super) values: Vec<ValueRow>,
}

/// A value of a preset.
#[derive(Debug, Serialize)]
pub(super) struct ValueRow {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) source: String,
}

/// The rows of declared keys, those of nested tables under their dotted names. `default` gives the value of a dotted
/// key.
pub(super) fn key_rows(keys: &[Key], default: &dyn Fn(&str) -> Option<String>) -> Vec<KeyRow> {
    let mut rows = Vec::new();
    add("", keys, default, &mut rows);
    rows
}

fn add(
    prefix: &str,
    keys: &[Key],
    default: &dyn Fn(&str) -> Option<String>,
    rows: &mut Vec<KeyRow>,
) {
    for key in keys {
        let name = format!("{prefix}{}", key.name);
        if let Kind::Table(inner) = key.kind {
            add(&format!("{name}."), inner, default, rows);
            continue;
        }
        let choices = key.kind.choices().iter().map(|choice| (choice.name, choice.meaning()));
        rows.push(KeyRow {
            default: default(&name),
            range: key.kind.to_string(),
            meaning: key.meaning(),
            search: key.search.map(|search| search.to_string()),
            choices: choices.collect(),
            key: name,
        });
    }
}

/// The value at a dotted key, as it would be written after `--set`.
pub(super) fn value_at(table: &Table, key: &str) -> Option<String> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    let value = parts.try_fold(first, |value, part| value.get(part))?;
    Some(plain(value))
}

/// A value without the quotes that `--set` does not need.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Columns of a line.
const WIDTH: usize = 110;

impl Explanation {
    /// The explanation for people.
    pub(super) fn text(&self) -> String {
        let mut out = format!("{} {}\n", self.kind, self.name);
        wrap(&mut out, 2, &self.what);
        let width = self.facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        for (label, text) in &self.facts {
            hang(&mut out, &format!("  {label:width$}  "), text);
        }
        if !self.keys.is_empty() {
            let _ = writeln!(out, "\nKeys ({})", self.set);
            self.keys.iter().for_each(|key| key.text(&mut out));
        }
        if !self.presets.is_empty() {
            let _ = writeln!(out, "\nPresets");
            self.presets.iter().for_each(|preset| preset.text(&mut out));
        }
        if !self.next.is_empty() {
            let _ = writeln!(out, "\nNext: {}", self.next);
        }
        out
    }
}

impl KeyRow {
    fn text(&self, out: &mut String) {
        let default = self.default.as_ref().map_or_else(String::new, |value| format!(" = {value}"));
        hang(out, &format!("  {}{default}  ", self.key), &format!("[{}]", self.range));
        wrap(out, 6, &self.meaning);
        if let Some(search) = &self.search {
            wrap(out, 6, &format!("`paint tune` searches {search}"));
        }
        let width = self.choices.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, meaning) in &self.choices {
            hang(out, &format!("        {name:width$}  "), meaning);
        }
    }
}

impl PresetRow {
    fn text(&self, out: &mut String) {
        let default = if self.is_default { " (default)" } else { "" };
        hang(out, &format!("  {}{default}  ", self.name), &self.meaning);
        let line = |row: &ValueRow| format!("      {} = {}  ", row.key, row.value);
        let width = self.values.iter().map(|row| line(row).chars().count()).max().unwrap_or(0);
        for row in &self.values {
            hang(out, &format!("{:width$}", line(row)), &row.source);
        }
    }
}

/// A paragraph, `indent` columns in.
fn wrap(out: &mut String, indent: usize, text: &str) {
    hang(out, &" ".repeat(indent), text);
}

/// A paragraph after `head`, its further lines below its first word.
fn hang(out: &mut String, head: &str, text: &str) {
    let indent = head.chars().count().min(WIDTH / 2);
    let mut line = head.to_owned();
    let mut is_first = true;
    for word in text.split_whitespace() {
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(indent);
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_paragraph_continues_below_its_first_word() {
        let mut out = String::new();
        hang(&mut out, "  key  ", &"word ".repeat(40));
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH), "{out}");
        assert!(lines[1].starts_with("       word"), "{out}");
    }
}
