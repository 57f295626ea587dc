//! Which prompt each batch used.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use paint_run::event::BatchDone;

use super::chart::{Sheet, hue};
use super::visits::visits;

/// What the strip shows.
pub(super) const TEXT: &str = "One cell per batch, one line per prompt (of many, the most used); a ring marks the batch that a prompt was made for.";

/// The most lines.
const LINES: usize = 32;
/// The height of a line.
const LINE: f64 = 15.0;

/// The line of each prompt, in the order of their numbers; where there are too many, the least used share the last.
fn lines(batches: &[BatchDone]) -> BTreeMap<usize, usize> {
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

/// The chart.
pub(super) fn strip(batches: &[BatchDone]) -> String {
    let line_of = lines(batches);
    let count = line_of.values().max().map_or(0, |last| last + 1);
    let marks = visits(batches);
    let mut sheet = Sheet::with_marks("prompts by batch", LINE * count as f64, &marks);
    let step = (sheet.right - sheet.x(0.0)) / batches.len().max(1) as f64;
    let (left, top) = (sheet.x(0.0), sheet.y(1.0));
    sheet.marks(&marks, |batch| left + step * batch);
    for line in 0..count {
        let mut on_it = line_of.iter().filter(|(_, of)| **of == line).map(|(index, _)| index);
        let label = match (on_it.next(), on_it.count()) {
            (Some(index), 0) => index.to_string(),
            (_, others) => format!("{} more", others + 1),
        };
        sheet.text(left - 6.0, top + LINE * (line as f64 + 0.75), "end", &label);
    }
    for (i, batch) in batches.iter().enumerate() {
        let Some(prompt) = batch.prompt else { continue };
        let (x, y) = (left + step * i as f64, top + LINE * line_of[&prompt.index] as f64);
        let ring = if prompt.allocated { " class=\"ring\"" } else { "" };
        let similarity = prompt
            .reliability
            .map_or_else(String::new, |similarity| format!(", similarity {similarity:.2}"));
        sheet.draw(format_args!(
            "<rect{ring} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"{}\"><title>batch {}: prompt {}{similarity}</title></rect>",
            (step - 1.0).max(1.0),
            LINE - 2.0,
            hue(prompt.index),
            batch.index,
            prompt.index
        ));
    }
    sheet.finish()
}

#[cfg(test)]
pub(super) mod tests {
    use paint_run::event::Prompt;

    use super::*;

    /// One batch of one domain for each prompt.
    pub(crate) fn batches(prompts: impl Iterator<Item = usize>) -> Vec<BatchDone> {
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
            guard: None,
            ms: 0.0,
        };
        prompts.map(batch).collect()
    }

    #[test]
    fn few_prompts_have_a_line_each_and_of_many_the_least_used_share_one() {
        let few = lines(&batches([4, 0, 4].into_iter()));
        assert_eq!(few.into_iter().collect::<Vec<_>>(), [(0, 0), (4, 1)]);
        // The even ones are used twice.
        let many = lines(&batches((0..100).chain((0..62).step_by(2))));
        assert_eq!(many.values().max(), Some(&(LINES - 1)));
        assert_eq!((many[&60], many[&1], many[&99]), (30, LINES - 1, LINES - 1));
        let svg = strip(&batches((0..100).chain((0..62).step_by(2))));
        assert!(svg.contains(">69 more<"), "{svg}");
    }
}
