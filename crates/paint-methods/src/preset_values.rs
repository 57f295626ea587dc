//! The values of every preset with their sources, for those who explain a method: `presets.toml` of this crate, read as
//! text, because the sources are its comments. The program does not take its values from there; a test compares both.

/// The file.
const FILE: &str = include_str!("../presets.toml");

/// The section of what all presets of a method share.
const EVERY: &str = "every";

/// A value of a preset, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresetValue {
    /// The setting, with dots for one inside a table.
    pub key: &'static str,
    /// Its value as TOML.
    pub value: &'static str,
    /// The paper, the code or the measurement it comes from.
    pub source: &'static str,
}

/// The values of a preset of a method: those that all its presets share, then its own. Empty for a method that is not
/// of this crate.
pub(crate) fn of(method: &str, preset: Option<&str>) -> Vec<PresetValue> {
    let (shared, own) = (section(method, EVERY), preset.map(|preset| section(method, preset)));
    shared.into_iter().chain(own.into_iter().flatten()).collect()
}

fn section(method: &str, preset: &str) -> Vec<PresetValue> {
    let header = format!("[{method}.{preset}]");
    let lines = FILE.lines().skip_while(|line| *line != header).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter_map(value).collect()
}

/// `key = value # source`; nothing for an empty line or one that is a comment.
fn value(line: &'static str) -> Option<PresetValue> {
    let (setting, source) = line.split_once(" # ").unwrap_or((line, ""));
    let (key, value) = setting.split_once(" = ").filter(|_| !line.starts_with('#'))?;
    Some(PresetValue { key: key.trim(), value: value.trim(), source: source.trim() })
}
