//! The charts of a page, as inline SVG.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Run;
use super::embed::escape;
use paint_run::event::BatchDone;

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 72.0;
const HEIGHT: f64 = 240.0;
/// Room below a chart for slanted names.
const FOOT: f64 = 98.0;

/// The colour of a run.
pub(super) fn colour(run: usize) -> String {
    format!("var(--c{})", run % 4)
}

fn open(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">")
}

fn y(percent: f64) -> f64 {
    HEIGHT * (1.0 - percent / 100.0) + 8.0
}

fn grid(svg: &mut String) {
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let y = y(percent);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"var(--line)\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent}</text>",
            LEFT - 5.0,
            y + 4.0
        );
    }
}

fn slanted(svg: &mut String, x: f64, y: f64, text: &str) {
    let text = escape(text);
    let _ = write!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" transform=\"rotate(-40 {x:.1} {y:.1})\">{text}</text>"
    );
}

/// A group of bars for each visit.
pub(super) fn bars(runs: &[Run<'_>]) -> String {
    let mut svg = open(HEIGHT + FOOT);
    grid(&mut svg);
    let Some(first) = runs.first() else { return svg + "</svg>" };
    let step = (WIDTH - LEFT) / first.summary.domains.len().max(1) as f64;
    let bar = step * 0.8 / runs.len() as f64;
    for (d, domain) in first.summary.domains.iter().enumerate() {
        let x = LEFT + step * (d as f64 + 0.1);
        for (r, run) in runs.iter().enumerate() {
            let accuracy = run.summary.domains.get(d).and_then(|domain| domain.figures.accuracy);
            let Some(accuracy) = accuracy else { continue };
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}, {}: {accuracy:.1}</title></rect>",
                x + bar * r as f64,
                y(accuracy),
                y(0.0) - y(accuracy),
                colour(r),
                escape(&run.summary.method),
                escape(&domain.name),
            );
        }
        slanted(&mut svg, x + step * 0.5, y(0.0) + 14.0, &domain.name);
    }
    svg + "</svg>"
}

/// The most names that have room below a chart.
const NAMES: usize = 40;

/// The batches at which a visit begins, with its name; of many, those at which another domain begins, if they have room.
pub(super) fn visits(batches: &[BatchDone]) -> Vec<(usize, &str)> {
    let mut starts: Vec<(usize, &str)> = Vec::new();
    let mut last = None;
    for (i, batch) in batches.iter().enumerate() {
        if last != Some(batch.segment) {
            starts.push((i, &batch.domain));
        }
        last = Some(batch.segment);
    }
    if starts.len() > NAMES {
        starts.dedup_by_key(|(_, name)| *name);
    }
    if starts.len() > NAMES {
        starts.clear();
    }
    starts
}

fn boundaries(svg: &mut String, batches: &[BatchDone], top: f64, bottom: f64) {
    let x = |batch: usize| LEFT + (WIDTH - LEFT) * batch as f64 / batches.len().max(1) as f64;
    let starts = visits(batches);
    for (i, (start, name)) in starts.iter().enumerate() {
        let end = starts.get(i + 1).map_or(batches.len(), |(end, _)| *end);
        let _ = write!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"var(--line)\"/>",
            x(*start)
        );
        slanted(svg, f64::midpoint(x(*start), x(end)), bottom + 14.0, name);
    }
}

/// Accuracy within each visit, batch by batch.
pub(super) fn curves(runs: &[Run<'_>]) -> String {
    let mut svg = open(HEIGHT + FOOT);
    grid(&mut svg);
    if let Some(first) = runs.first() {
        boundaries(&mut svg, first.batches, y(100.0), y(0.0));
    }
    for (r, run) in runs.iter().enumerate() {
        let x = |batch: f64| LEFT + (WIDTH - LEFT) * batch / run.batches.len().max(1) as f64;
        let mut path = String::new();
        let mut last = None;
        for (i, batch) in run.batches.iter().enumerate() {
            let Some(accuracy) = batch.domain_accuracy else { continue };
            let goes_on = run.batches.get(i + 1).is_some_and(|next| next.segment == batch.segment);
            let begins = last != Some(batch.segment);
            let pen = if begins { 'M' } else { 'L' };
            if begins && !goes_on {
                // A visit of one batch has no course: a level line across the batch shows where it lies.
                let (start, y) = (x(i as f64 + 0.15), y(accuracy));
                let _ = write!(path, "M{start:.1} {y:.1}H{:.1}", x(i as f64 + 0.85));
            } else {
                let _ = write!(path, "{pen}{:.1} {:.1}", x(i as f64 + 0.5), y(accuracy));
            }
            last = Some(batch.segment);
        }
        let _ = write!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>",
            colour(r)
        );
    }
    svg + "</svg>"
}

/// The most lines of the chart of prompts.
const LINES: usize = 32;

/// The line of each prompt, in the order of their numbers; where there are too many, the least used share the last.
fn prompt_lines(batches: &[BatchDone]) -> BTreeMap<usize, usize> {
    let mut uses: BTreeMap<usize, usize> = BTreeMap::new();
    for prompt in batches.iter().filter_map(|batch| batch.prompt) {
        *uses.entry(prompt.index).or_default() += 1;
    }
    let mut by_use: Vec<usize> = uses.keys().copied().collect();
    by_use.sort_by_key(|index| Reverse(uses[index]));
    let own = if by_use.len() > LINES { LINES - 1 } else { by_use.len() };
    let (mut own, shared) = (by_use[..own].to_vec(), &by_use[own..]);
    own.sort_unstable();
    let line_of_shared = own.len();
    let own = own.into_iter().enumerate().map(|(line, index)| (index, line));
    own.chain(shared.iter().map(|index| (*index, line_of_shared))).collect()
}

/// Which prompt each batch used.
pub(super) fn prompts(batches: &[BatchDone]) -> String {
    const ROW: f64 = 15.0;
    let rows = prompt_lines(batches);
    let lines = rows.values().max().map_or(0, |last| last + 1);
    let bottom = 4.0 + ROW * lines as f64;
    let mut svg = open(bottom + FOOT);
    boundaries(&mut svg, batches, 0.0, bottom);
    let step = (WIDTH - LEFT) / batches.len().max(1) as f64;
    for line in 0..lines {
        let mut on_it = rows.iter().filter(|(_, of)| **of == line).map(|(index, _)| index);
        let label = match (on_it.next(), on_it.count()) {
            (Some(index), 0) => index.to_string(),
            (_, others) => format!("{} more", others + 1),
        };
        let y = 4.0 + ROW * (line as f64 + 0.75);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 5.0
        );
    }
    for (i, batch) in batches.iter().enumerate() {
        let Some(prompt) = batch.prompt else { continue };
        // The golden angle keeps neighbouring numbers apart in hue.
        let hue = (prompt.index as f64 * 137.508) % 360.0;
        let (x, y) = (LEFT + step * i as f64, 4.0 + ROW * rows[&prompt.index] as f64);
        let ring = if prompt.allocated { " stroke=\"var(--fg)\" stroke-width=\"1.5\"" } else { "" };
        let reliability = prompt
            .reliability
            .map_or_else(String::new, |reliability| format!(", similarity {reliability:.2}"));
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"hsl({hue:.0} 60% 55%)\"{ring}><title>batch {}: prompt {}{reliability}</title></rect>",
            (step - 1.0).max(1.0),
            ROW - 2.0,
            batch.index,
            prompt.index
        );
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use paint_run::event::Prompt;

    fn batches(prompts: impl Iterator<Item = usize>) -> Vec<BatchDone> {
        let batch = |index: usize| BatchDone {
            index: 0,
            of: 1,
            segment: 0,
            domain: "fog".to_owned(),
            severity: None,
            samples: 1,
            domain_accuracy: None,
            running_accuracy: None,
            prompt: Some(Prompt { index, allocated: false, reliability: None }),
            scalars: BTreeMap::new(),
            ms: 0.0,
        };
        prompts.map(batch).collect()
    }

    #[test]
    fn a_long_stream_has_a_name_for_each_domain_in_a_row() {
        let mut all = batches(std::iter::repeat_n(0, 90));
        for (i, batch) in all.iter_mut().enumerate() {
            batch.segment = i;
            batch.domain = ["fog", "snow"][i / 45].into();
        }
        assert_eq!(visits(&all), [(0, "fog"), (45, "snow")]);
        assert_eq!(visits(&all[30..60]).len(), 30);
        all.iter_mut().enumerate().for_each(|(i, batch)| batch.domain = i.to_string());
        assert!(visits(&all).is_empty());
    }

    #[test]
    fn few_prompts_have_a_line_each_and_of_many_the_least_used_share_one() {
        let few = prompt_lines(&batches([4, 0, 4].into_iter()));
        assert_eq!(few.into_iter().collect::<Vec<_>>(), [(0, 0), (4, 1)]);
        // The even ones are used twice.
        let many = prompt_lines(&batches((0..100).chain((0..62).step_by(2))));
        assert_eq!(many.values().max(), Some(&(LINES - 1)));
        assert_eq!((many[&60], many[&1], many[&99]), (30, LINES - 1, LINES - 1));
        let svg = prompts(&batches((0..100).chain((0..62).step_by(2))));
        assert!(svg.contains(">69 more<"), "{svg}");
    }
}
