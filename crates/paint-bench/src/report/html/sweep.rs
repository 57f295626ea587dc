//! One setting at several values: accuracy against the value, ours and the paper's, over all domains and by group of
//! corruptions.

use super::chart::{Mark, Series, Stroke, colour, lines, on_page};
use super::page::Page;
use crate::grid::Results;
use crate::report::compare::Comparison;
use crate::report::sweep::{Curve, Sweep, sweeps};

/// The colour of the mean.
const MEAN: usize = 6;

/// A section for each setting that some rows have values of, in the order of the rows.
pub(super) fn sections(results: &Results, comparisons: &[Comparison], page: &mut Page) {
    for sweep in sweeps(results) {
        let curves = sweep.curves(results, comparisons);
        let Some((mean, groups)) = curves.split_last() else { continue };
        let (name, key) = (results.rate.name(), sweep.key);
        let series = line(mean, ["ours", "paper"], MEAN);
        let mut html = on_page(&chart(&format!("{name} by {key}"), &series, &sweep));
        if !groups.is_empty() {
            let groups = groups.iter().enumerate();
            let series = groups.flat_map(|(at, curve)| {
                line(curve, [curve.name, &format!("{} (paper)", curve.name)], at)
            });
            let title = format!("{name} by {key} and group of corruptions");
            html.push_str("<h3>By group of corruptions</h3>");
            html.push_str(&on_page(&chart(&title, &series.collect::<Vec<_>>(), &sweep)));
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let id: String = format!("sweep-{}-{key}", sweep.method).chars().map(plain).collect();
        let text = format!(
            "Mean {name} at each value of the setting, all else the same; a broken line is the paper's."
        );
        page.section(&id, &format!("What {key} does"), &text, &html);
    }
}

/// Our line and the paper's, as far as there are any.
fn line(curve: &Curve, labels: [&str; 2], place: usize) -> Vec<Series> {
    let points = |values: &[Option<f64>]| -> Vec<(f64, f64)> {
        values.iter().enumerate().filter_map(|(at, value)| Some((at as f64, (*value)?))).collect()
    };
    let paper = Series::new(labels[1], colour(place), points(&curve.paper)).stroke(Stroke::Dashed);
    let mut series = vec![Series::new(labels[0], colour(place), points(&curve.ours)), paper];
    series.retain(|one| !one.runs[0].is_empty());
    series
}

fn chart(title: &str, series: &[Series], sweep: &Sweep<'_>) -> String {
    let points = sweep.points.iter().enumerate();
    let marks: Vec<Mark> =
        points.map(|(at, (value, _))| Mark { at: at as f64, name: value.to_string() }).collect();
    lines(title, series, &marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{results, swept};

    fn page(results: &Results, target: &str) -> String {
        let paper = Comparison::new(results, target).unwrap();
        let mut page = Page::new("t", "");
        sections(results, &[paper], &mut page);
        page.finish()
    }

    #[test]
    fn a_sweep_has_a_section_with_the_papers_curve_and_other_rows_have_none() {
        let mut swept = swept("eta", &[0.1, 0.2, 0.9]);
        swept.rows.push(results().rows[1].clone());
        // The paper has no groups of this figure.
        swept.columns[0].name = "sketch".into();
        let html = page(&swept, "thresholds");
        let section = "<section id=\"sweep-paint-eta\"><h2>What eta does</h2>";
        assert_eq!(html.matches(section).count(), 1);
        // Three values, ours and the paper's.
        assert_eq!(html.matches("<circle").count(), 6);
        assert!(html.contains("<title>paper: 57.33</title>"), "{html}");
        assert!(!html.contains("By group of corruptions"), "{html}");
    }

    #[test]
    fn corruptions_of_several_groups_have_a_line_each_beside_the_papers() {
        let html = page(&swept("prompt_length", &[0.0, 2.0, 4.0]), "prompt-length");
        // The mean, noise and weather.
        assert_eq!(html.matches("<circle").count(), 3 * 6);
        for title in ["noise: 58.00", "noise (paper): 56.88", "weather (paper): 66.89"] {
            assert!(html.contains(&format!("<title>{title}</title>")), "{title}: {html}");
        }
    }
}
