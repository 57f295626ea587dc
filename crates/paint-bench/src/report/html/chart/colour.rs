//! Colours: the palette's, by the place of a row, and unlimited ones by number.

/// The colour of a row: twelve, then the same ones nearer to the ink.
pub(crate) fn colour(row: usize) -> String {
    let plain = format!("var(--s{})", row % 12);
    if row < 12 { plain } else { format!("color-mix(in srgb,{plain} 55%,var(--fg))") }
}

/// A colour for any number; the golden angle keeps neighbours apart.
pub(crate) fn hue(number: usize) -> String {
    format!("hsl({:.0} 60% 55%)", (number as f64 * 137.508) % 360.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_rows_have_twenty_colours() {
        let mut all: Vec<String> = (0..20).map(colour).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 20);
    }
}
