//! A square of values between things, each against each.

use std::fmt::Write as _;

use paint_run::escape::html as escape;

/// The chart; `value` is in [0, 1], what is below counts as 0. It is drawn at its own size.
pub(crate) fn matrix(title: &str, names: &[String], value: impl Fn(usize, usize) -> f64) -> String {
    const HEAD: f64 = 34.0;
    let cell = if names.len() > 24 { 18.0 } else { 26.0 };
    let side = HEAD + cell * names.len() as f64;
    let mut svg = format!(
        "<svg class=\"matrix\" width=\"{side:.0}\" height=\"{side:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    );
    for (i, name) in names.iter().enumerate() {
        let (at, name) = (HEAD + cell * i as f64, escape(name));
        let (middle, edge) = (at + cell / 2.0, HEAD - 8.0);
        let _ = write!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{edge:.1}\" text-anchor=\"middle\">{name}</text>\
             <text x=\"{edge:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            middle + 4.0
        );
        for (j, other) in names.iter().enumerate() {
            let (value, x, size) = (value(i, j), HEAD + cell * j as f64, cell - 2.0);
            let share = (value.max(0.0) * 85.0) as u32;
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{at:.1}\" width=\"{size:.1}\" height=\"{size:.1}\" rx=\"3\" \
                 style=\"fill:color-mix(in srgb,var(--heat) {share}%,var(--card))\"><title>{name} and {}: {value:.3}</title></rect>",
                escape(other)
            );
        }
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_a_cell() {
        let names = ["0", "4"].map(String::from);
        let svg = matrix("t", &names, |i, j| if i == j { 1.0 } else { -0.5 });
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains("0 and 4: -0.500") && svg.contains("var(--heat) 0%"), "{svg}");
    }
}
