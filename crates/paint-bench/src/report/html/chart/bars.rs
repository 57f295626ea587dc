//! Horizontal bars from zero. They are boxes of the page, not SVG: their letters keep their size on any screen.

use std::fmt::Write as _;

use paint_run::escape::html as escape;

use super::scale::Scale;

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) colour: String,
    pub(crate) value: f64,
    /// Half the length of the whisker.
    pub(crate) spread: Option<f64>,
    /// Another's number, a tick on the bar.
    pub(crate) beside: Option<f64>,
}

/// The chart.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let ends = bars.iter().map(|bar| bar.value + bar.spread.unwrap_or(0.0));
    let scale = Scale::from_zero(ends.chain(bars.iter().filter_map(|bar| bar.beside)));
    let share = |value: f64| 100.0 * scale.at(value).clamp(0.0, 1.0);
    let mut html = format!("<div class=\"bars\" role=\"group\" aria-label=\"{}\">", escape(title));
    for bar in bars {
        let (label, value) = (escape(&bar.label), bar.value);
        let _ = write!(
            html,
            "<span>{label}</span><span class=\"track\"><i style=\"width:{:.2}%;background:{}\"></i>",
            share(value),
            bar.colour
        );
        if let Some(spread) = bar.spread {
            let (from, to) = (share(value - spread), share(value + spread));
            let width = to - from;
            let _ = write!(
                html,
                "<i class=\"whisker\" style=\"left:{from:.2}%;width:{width:.2}%\"></i>"
            );
        }
        if let Some(beside) = bar.beside {
            let _ = write!(
                html,
                "<i class=\"beside\" style=\"left:{:.2}%\" title=\"paper: {beside:.2}\"></i>",
                share(beside)
            );
        }
        let _ = write!(html, "</span><span class=\"value\">{value:.2}</span>");
    }
    html + "</div>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero_and_hold_whisker_and_tick() {
        let bar = |value, spread, beside| Bar {
            label: "<a>".into(),
            colour: "red".into(),
            value,
            spread,
            beside,
        };
        let html = bars("t", &[bar(50.0, Some(10.0), None), bar(25.0, None, Some(100.0))]);
        assert!(html.contains("&lt;a&gt;") && html.contains("width:50.00%"), "{html}");
        assert!(html.contains("left:40.00%;width:20.00%"), "{html}");
        assert!(html.contains("left:100.00%") && html.contains("paper: 100.00"), "{html}");
    }
}
