//! What a reader must know before the numbers: that they are not from the images or the stream that their name
//! promises.

use paint_data::corruption::CORRUPTIONS;
use paint_data::dataset::entry;

use crate::grid::Results;
use crate::protocol::Protocol;
use crate::reproduce::Target;

/// What results are called: the table or figure that was asked for, or their protocol.
pub(super) fn title(results: &Results) -> String {
    match (target(results), &results.target) {
        (Some(target), _) if is_small(results, target) => {
            format!("{}, small version on embedded images", target.name)
        }
        (_, Some(name)) => name.clone(),
        (_, None) => results.protocol.name.clone(),
    }
}

fn target(results: &Results) -> Option<&'static Target> {
    Target::find(results.target.as_deref()?).ok()
}

/// Whether results are of the images that a target runs on without the user's data.
fn is_small(results: &Results, target: &Target) -> bool {
    let small = Protocol::built_in(target.small);
    small.is_some_and(|small| results.protocol.data.name == small.data.name)
}

/// A sentence for each way in which results depart from their protocol, or from the table or figure that was asked
/// for: other images, another order, another severity.
pub fn notice(results: &Results) -> Option<String> {
    let target = target(results);
    let sentences =
        [other_images(results, target), other_stream(results, target), missing(results)];
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn other_images(results: &Results, target: Option<&Target>) -> Option<String> {
    let protocol = target.map_or(results.protocol.name.as_str(), |target| target.full);
    let data = Protocol::built_in(protocol)?.data.name;
    let name = &results.protocol.data.name;
    if *name == data {
        return None;
    }
    let Some(target) = target.filter(|target| is_small(results, target)) else {
        let made =
            if results.protocol.data.corrupt.is_some() { ", corrupted on the fly" } else { "" };
        return Some(format!(
            "Not the images of {data}: those of the dataset {name} in its place{made}."
        ));
    };
    let images = results.images.map_or_else(String::new, |images| format!("{images} "));
    let paper = if target.references.is_empty() {
        String::new()
    } else {
        format!("; the paper's numbers beside them are of {data}")
    };
    Some(format!(
        "These are not {data} numbers. Without --data, {} runs small, on {images}embedded CIFAR-10 images per visit (32 x 32, ten classes){paper}. \
         Give --data and --weights for the table itself.",
        target.name
    ))
}

/// What the user changed in the stream that the protocol describes.
fn other_stream(results: &Results, target: Option<&Target>) -> Option<String> {
    let name = target.map_or(results.protocol.name.as_str(), |target| {
        if is_small(results, target) { target.small } else { target.full }
    });
    let mut shipped = Protocol::built_in(name)?;
    if let Some(target) = target {
        target.adjust(&mut shipped);
    }
    // Every report names the number of images per visit anyway.
    let counts = |key: &str| key.starts_with("scenario.") && key != "scenario.limit";
    let departures = results.protocol.departures(&shipped).ok()?.into_iter();
    let named: Vec<String> =
        departures.filter(|other| counts(&other.key)).map(|other| other.to_string()).collect();
    (!named.is_empty()).then(|| format!("Not the stream of {name}: {}.", named.join(", ")))
}

/// Corruptions that the stream should visit and the data do not have.
fn missing(results: &Results) -> Option<String> {
    let visited = |name: &str| results.columns.iter().any(|column| column.name == name);
    let benchmark = CORRUPTIONS.iter().filter(|corruption| !corruption.held_out);
    let (found, missing): (Vec<&str>, Vec<&str>) =
        benchmark.map(|corruption| corruption.name).partition(|name| visited(name));
    let Protocol { data, scenario, .. } = &results.protocol;
    // Nothing lacks corruptions that are made on the fly, or lie in the program.
    let is_files = data.corrupt.is_none() && entry(&data.name).is_ok_and(|entry| !entry.is_inside);
    if !is_files || scenario.domains.is_some() || found.is_empty() || missing.is_empty() {
        return None;
    }
    Some(format!(
        "Only {} of the fifteen corruptions: the data have no {}.",
        found.len(),
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::html::{BenchPage, bench_page};
    use super::super::sample::{columns, results};
    use super::super::{results_latex, results_markdown, results_terminal};
    use super::*;

    fn page(results: &Results) -> String {
        bench_page(&BenchPage {
            results,
            comparisons: &[],
            traces: &[],
            shots: &[],
            cams: &[],
            timings: &[],
            warnings: &[],
        })
    }

    #[test]
    fn a_table_on_embedded_images_says_so_wherever_it_is_read() {
        let told = "These are not imagenet-c numbers. Without --data, table2 runs small, on 50 embedded CIFAR-10 images";
        let mut results = results();
        let everywhere = |results: &Results| {
            let text = results_markdown(results, &[]);
            [text, results_terminal(results), results_latex(results), page(results)]
        };
        assert!(everywhere(&results).iter().all(|text| !text.contains("These are not")));
        results.target = Some("table2".into());
        for text in everywhere(&results) {
            assert!(text.contains(told), "{text}");
        }
        assert!(
            notice(&results).unwrap().contains("the paper's numbers beside them are of imagenet-c")
        );
        assert!(page(&results).contains("<h1>table2, small version on embedded images</h1>"));
    }

    #[test]
    fn the_data_of_the_table_need_no_notice_and_others_are_named() {
        let mut results = results();
        results.target = Some("table1".into());
        results.protocol.data.name = "cifar10-c".into();
        results.protocol.data.corrupt = None;
        let told = notice(&results).unwrap();
        assert!(
            told.starts_with("Only 2 of the fifteen corruptions: the data have no gaus"),
            "{told}"
        );
        results.columns = columns(
            &CORRUPTIONS[..15].iter().map(|corruption| corruption.name).collect::<Vec<_>>(),
        );
        assert_eq!(notice(&results), None);
        results.protocol.data.name = "npy".into();
        assert!(notice(&results).unwrap().contains("Not the images of cifar10-c"));
        results.target = None;
        results.protocol.name = "cifar10-c".into();
        results.protocol.data.corrupt = Some(paint_data::dataset::Corrupt::default());
        let told = notice(&results).unwrap();
        assert!(told.ends_with("the dataset npy in its place, corrupted on the fly."), "{told}");
        results.protocol.data.name = "cifar10-c".into();
        assert_eq!(notice(&results), None);
        results.protocol.scenario.limit = Some(7);
        assert_eq!(notice(&results), None);
        results.protocol.scenario.severity = Some(3);
        let told = "Not the stream of cifar10-c: scenario.severity: 3 in place of 5.";
        assert_eq!(notice(&results).as_deref(), Some(told));
    }
}
