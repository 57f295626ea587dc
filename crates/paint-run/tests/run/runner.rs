//! What the runner asks of its input, what it tells, and when it resets.

use std::cell::RefCell;
use std::rc::Rc;

use crate::support::{Drift, dataset, images, setup, stream};
use paint_data::{Dataset as _, Stream};
use paint_run::{Error, Event, Runner, Task};

#[test]
fn events_tell_every_batch_every_visit_and_the_end() {
    let (data, setup) = (dataset(true), setup());
    let stream = stream(&data, "continual");
    let task = Task { dataset: &data, stream: &stream, setup: &setup };
    let events = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&events);
    let mut runner = Runner::new("drift", Box::new(Drift::new()), task)
        .unwrap()
        .with_observer(move |event: &Event| sink.borrow_mut().push(event.clone()));
    runner.announce().unwrap();
    while let Some(batch) = runner.next_batch() {
        runner.feed(&images(&data, batch)).unwrap();
    }
    let summary = runner.finish().unwrap();
    let events = events.borrow();
    // 50 images make 13 batches, 70 make 18.
    assert!(matches!(&events[0], Event::RunStarted { batches: 31, samples: 120, position: 0, .. }));
    let Event::BatchDone(batch) = &events[13] else { panic!("{:?}", events[13]) };
    assert_eq!((batch.index, batch.samples, batch.domain.as_str()), (12, 2, "fog"));
    assert_eq!(batch.prompt.map(|prompt| (prompt.index, prompt.allocated)), Some((4, true)));
    let Event::DomainDone(fog) = &events[14] else { panic!("{:?}", events[14]) };
    assert_eq!((fog.name.as_str(), fog.severity, fog.figures.samples), ("fog", Some(1), 50));
    assert_eq!(fog.figures.accuracy, batch.domain_accuracy);
    let Event::RunDone(last) = &events[34] else { panic!("{:?}", events[34]) };
    assert_eq!(**last, summary);
    assert_eq!(events.len(), 35);
    let accuracies: Vec<f64> = summary.domains.iter().filter_map(|d| d.figures.accuracy).collect();
    assert_eq!(summary.mean_accuracy, Some(f64::midpoint(accuracies[0], accuracies[1])));
    assert_eq!(summary.matching.unwrap().prompts_allocated, 11);
}

#[test]
fn a_reset_before_a_batch_brings_the_source_back() {
    let (data, setup) = (dataset(true), setup());
    let streams = ["continual", "reset_each"].map(|name| stream(&data, name));
    let hashes = streams.each_ref().map(|stream| {
        let task = Task { dataset: &data, stream, setup: &setup };
        let mut runner = Runner::new("drift", Box::new(Drift::new()), task).unwrap();
        while let Some(batch) = runner.next_batch() {
            runner.feed(&images(&data, batch)).unwrap();
        }
        (runner.method().save().unwrap().counters["steps"], runner.finish().unwrap().logits_hash)
    });
    assert_eq!((hashes[0].0, hashes[1].0), (31, 18));
    assert_ne!(hashes[0].1, hashes[1].1);
}

#[test]
fn bad_streams_images_and_logits_are_refused_with_their_place() {
    let (data, unlabelled, setup) = (dataset(true), dataset(false), setup());
    let empty = Stream { batches: Vec::new() };
    let task = Task { dataset: &data, stream: &empty, setup: &setup };
    assert!(matches!(Runner::new("d", Box::new(Drift::new()), task), Err(Error::EmptyStream)));
    let stream = stream(&data, "continual");
    let task = Task { dataset: &unlabelled, stream: &stream, setup: &setup };
    let error = Runner::new("d", Box::new(Drift::new()), task).err().unwrap().to_string();
    assert!(error.contains("fog") && error.contains("paint adapt"), "{error}");

    let task = Task { dataset: &data, stream: &stream, setup: &setup };
    let mut runner = Runner::new("d", Box::new(Drift::new()), task).unwrap();
    let batch = images(&data, &stream.batches[0]);
    let error = runner.feed(&batch.scale(f32::NAN).unwrap()).unwrap_err().to_string();
    assert!(error.contains("batch 0") && error.contains("images"), "{error}");
    assert_eq!(runner.position(), 0);
    let short = images(&data, stream.batches.last().unwrap());
    let error = runner.feed(&short).unwrap_err().to_string();
    assert!(error.contains("[4, 3]") && error.contains("[2, 3]"), "{error}");

    let broken = Drift { nan_at: Some(1), ..Drift::new() };
    let mut runner = Runner::new("d", Box::new(broken), task).unwrap();
    runner.feed(&batch).unwrap();
    let error = runner.feed(&batch).unwrap_err().to_string();
    assert!(error.contains("batch 1") && error.contains("logits"), "{error}");
    assert_eq!(data.len(0), 50);
}
