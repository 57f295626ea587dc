//! Where the visits of a stream begin, for the axes of charts over batches.

use paint_run::event::BatchDone;

use super::chart::Mark;

/// The most names that have room below a chart.
const NAMES: usize = 40;

/// The batches at which a visit begins, with its name; of many, those at which another domain begins, if they have
/// room.
pub(super) fn visits(batches: &[BatchDone]) -> Vec<Mark> {
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
    let mark = |(at, name): (usize, &str)| Mark { at: at as f64, name: name.into() };
    starts.into_iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::prompts::tests::batches;

    #[test]
    fn a_long_stream_has_a_name_for_each_domain_in_a_row() {
        let mut all = batches(std::iter::repeat_n(0, 90));
        for (i, batch) in all.iter_mut().enumerate() {
            batch.segment = i;
            batch.domain = ["fog", "snow"][i / 45].into();
        }
        let at: Vec<(f64, String)> = visits(&all).into_iter().map(|m| (m.at, m.name)).collect();
        assert_eq!(at, [(0.0, "fog".into()), (45.0, "snow".into())]);
        assert_eq!(visits(&all[30..60]).len(), 30);
        all.iter_mut().enumerate().for_each(|(i, batch)| batch.domain = i.to_string());
        assert!(visits(&all).is_empty());
    }
}
