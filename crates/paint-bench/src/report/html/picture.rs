//! Accuracy by domain as a picture that stands alone: for a README, a slide, a paper.

use super::chart::{Mark, Series, Stroke, colour, lines};
use crate::grid::{Results, Row};

const STYLE: &str = concat!(include_str!("palette.css"), include_str!("chart.css"));

/// An SVG file. The first row and the best one stand out, the others behind them.
pub fn picture(results: &Results) -> String {
    let line = |(i, row): (usize, &Row)| {
        let points = row.by_domain.iter().enumerate();
        let points = points.filter_map(|(at, value)| Some((at as f64, (*value)?)));
        let stands_out = i == 0 || results.best() == Some(row.accuracy.mean);
        let label = format!("{} {:.1}", row.label, row.accuracy.mean);
        let stroke = if stands_out { Stroke::Plain } else { Stroke::Faint };
        Series::new(&label, colour(i), points.collect()).stroke(stroke)
    };
    let mut series: Vec<Series> = results.rows.iter().enumerate().map(line).collect();
    series.sort_by_key(|one| one.stroke == Stroke::Plain);
    let columns = results.columns.iter().enumerate();
    let marks: Vec<Mark> =
        columns.map(|(at, column)| Mark { at: at as f64, name: column.name.clone() }).collect();
    let title = format!("{} in percent by domain, protocol {}", results.rate.title(), results.hash);
    let svg = lines(&title, &series, &marks);
    let (open, rest) = svg.split_once('>').unwrap_or((&svg, ""));
    let open = open.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    format!(
        "{open}><style>{STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>{rest}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::results;

    #[test]
    fn a_picture_is_a_file_of_its_own_in_which_the_first_and_the_best_row_stand_out() {
        let mut results = results();
        results.rows.insert(1, Row { label: "tent".into(), ..results.rows[0].clone() });
        let svg = picture(&results);
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox="), "{svg}");
        assert!(svg.ends_with("</svg>\n") && svg.contains("--s0:") && svg.contains(&results.hash));
        let lines = svg.matches("<path class=\"line\"").count();
        assert_eq!((lines, svg.matches("opacity=").count()), (3, 1));
    }
}
