//! Groups of bars side by side, one group for each place of a stream.

use paint_run::escape::html as escape;

use super::scale::Scale;
use super::sheet::{PLOT, Sheet, foot, lean};

/// One group.
pub(crate) struct Group {
    pub(crate) name: String,
    /// One for each series, in their order.
    pub(crate) values: Vec<Option<f64>>,
}

/// The chart; `series` are name and colour.
pub(crate) fn groups(title: &str, series: &[(&str, String)], groups: &[Group]) -> String {
    let values = groups.iter().flat_map(|group| group.values.iter().flatten());
    let scale = Scale::from_zero(values.copied());
    let names = || groups.iter().map(|group| group.name.as_str());
    let mut sheet = Sheet::new(title, PLOT, [lean(names().next_back()), foot(names())]);
    sheet.horizontal_ticks(scale);
    let step = (sheet.right - sheet.x(0.0)) / groups.len().max(1) as f64;
    let bar = step * 0.8 / series.len().max(1) as f64;
    for (g, group) in groups.iter().enumerate() {
        let left = sheet.x(0.0) + step * (g as f64 + 0.1);
        for (s, ((label, colour), value)) in series.iter().zip(&group.values).enumerate() {
            let Some(value) = value else { continue };
            let (top, bottom) = (sheet.y(scale.at(*value)), sheet.bottom);
            sheet.draw(format_args!(
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{}, {}: {value:.1}</title></rect>",
                left + bar * s as f64,
                bottom - top,
                escape(label),
                escape(&group.name)
            ));
        }
        sheet.slanted(left + step * 0.3, &group.name);
    }
    sheet.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_bar_for_each_value_that_is_there() {
        let all = [("a", [Some(1.0), Some(2.0)]), ("<b>", [None, Some(4.0)])];
        let all = all.map(|(name, values)| Group { name: name.into(), values: values.into() });
        let svg = groups("t", &[("one", "red".into()), ("two", "blue".into())], &all);
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("<title>two, &lt;b&gt;: 4.0</title>"), "{svg}");
    }
}
