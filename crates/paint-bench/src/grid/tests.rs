use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use paint_run::Event;
use paint_run::model::embedded;

use super::*;
use crate::protocol::{Place, Protocol};

/// Two domains of eight embedded images, two seeds.
pub(crate) fn protocol() -> Protocol {
    let mut protocol = Protocol::find("embedded").unwrap();
    protocol.scenario.limit = Some(8);
    protocol.scenario.batch_size = 4;
    protocol.scenario.domains = Some(vec!["fog".into(), "shot_noise".into()]);
    protocol.seeds = vec![0, 1];
    protocol
}

pub(crate) fn place(out: &std::path::Path) -> Place {
    Place { threads: Some(1), ..Place::new(out, embedded::NAME) }
}

fn with(label: &str, method: &str, settings: &str) -> Variant {
    Variant::with(label, method, settings.parse().unwrap())
}

#[test]
fn a_broken_cell_leaves_the_others_alone_and_finished_ones_are_not_run_again() {
    let temp = tempfile::tempdir().unwrap();
    let place = place(temp.path());
    let resolved = protocol().resolve(&place).unwrap();
    let variants = vec![
        Variant::plain("source"),
        with("broken", "tent", "lr = 1e300"),
        Variant::plain("tent"),
    ];
    let grid = Grid::new(resolved, variants, &place).unwrap();
    assert_eq!(grid.cells.len(), 6);
    let count = |jobs| {
        let seen = Mutex::new([0; 3]);
        let outcome = execute(&grid, jobs, &Arc::default(), &|event| match event {
            GridEvent::Found { .. } => seen.lock().unwrap()[0] += 1,
            GridEvent::Done { .. } => seen.lock().unwrap()[1] += 1,
            GridEvent::Failed { .. } => seen.lock().unwrap()[2] += 1,
            GridEvent::Running { .. } | GridEvent::Restarted { .. } => {}
        });
        (outcome, seen.into_inner().unwrap())
    };
    let (first, seen) = count(2);
    assert_eq!(seen, [0, 4, 2]);
    assert_eq!((first.results.len(), first.timings.len(), first.failures.len()), (4, 0, 2));
    assert!(first.failures[0].error.contains("NaN"), "{:?}", first.failures);
    let (again, seen) = count(usize::MAX);
    assert_eq!(seen, [4, 4, 2]);
    assert_eq!(again.results, first.results);
    // Times are told of runs that were alone, and go on being told.
    std::fs::remove_dir_all(&grid.cells[0].config.out).unwrap();
    for jobs in [1, 2] {
        assert_eq!(count(jobs).0.timings.len(), 1, "{jobs}");
    }

    let results = Results::new(&grid, &again, "paint bench");
    let labels: Vec<&str> = results.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["source", "tent"]);
    let row = results.row("tent").unwrap();
    assert_eq!((row.accuracy.runs, row.by_domain.len()), (2, 2));
    let cost = row.cost.as_ref().unwrap();
    assert_eq!((cost.forwards, cost.backwards), (1.0, 1.0));
    // Scale and shift of 25 layer norms of width 192.
    assert_eq!(cost.trainable, 25 * 2 * 192);
    assert_eq!(results.significance.len(), 1);
    let mean = |label: &str| results.row(label).unwrap().accuracy.mean;
    let difference = results.significance[0].difference;
    assert!((difference - (mean("tent") - mean("source"))).abs() < 1e-12);
}

#[test]
fn runs_that_repeat_each_other_to_the_bit_have_no_spread_and_are_one_pair() {
    let temp = tempfile::tempdir().unwrap();
    let place = place(temp.path());
    let mut protocol = protocol();
    protocol.seeds = vec![0, 1, 2];
    let variants = vec![Variant::plain("source"), Variant::plain("tent")];
    let grid = Grid::new(protocol.resolve(&place).unwrap(), variants, &place).unwrap();
    let mut outcome = execute(&grid, 1, &Arc::default(), &|_| {});
    let apart = Results::new(&grid, &outcome, "paint bench");
    assert!(apart.rows.iter().all(|row| row.accuracy.std.is_some()));
    assert!(apart.significance[0].pairs == 3 && apart.significance[0].p.is_some());
    for cell in &mut outcome.results {
        cell.logits_hash = cell.label.clone();
    }
    let alike = Results::new(&grid, &outcome, "paint bench");
    assert!(alike.rows.iter().all(|row| row.accuracy.std.is_none() && row.accuracy.runs == 3));
    assert!(alike.significance[0].pairs == 1 && alike.significance[0].p.is_none());
}

#[test]
fn a_grid_that_is_told_to_stop_saves_what_it_has_and_goes_on_from_there() {
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let grid = |out: &std::path::Path| {
        let place = place(out);
        let resolved = protocol().resolve(&place).unwrap();
        Grid::new(resolved, vec![Variant::plain("source"), Variant::plain("tent")], &place).unwrap()
    };
    let expected = execute(&grid(&whole), 1, &Arc::default(), &|_| {}).results;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = execute(&grid(&parts), 1, &stop, &|event| {
        // In the second cell.
        if let GridEvent::Running { cell: 1, event: Event::BatchDone(_) } = event {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert_eq!((stopped.results.len(), stopped.failures.len(), stopped.unfinished), (1, 0, 3));
    let begun = Mutex::new(None);
    let rest = execute(&grid(&parts), 1, &Arc::default(), &|event| {
        if let GridEvent::Running { cell: 1, event: Event::RunStarted { position, .. } } = event {
            *begun.lock().unwrap() = Some(*position);
        }
    });
    assert_eq!(begun.into_inner().unwrap(), Some(1), "after the batch that it had finished");
    assert_eq!((rest.results, rest.unfinished), (expected, 0));
}

#[test]
fn a_cell_whose_saved_state_is_damaged_begins_anew_and_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let place = place(temp.path());
    let resolved = protocol().resolve(&place).unwrap();
    let grid = Grid::new(resolved, vec![Variant::plain("tent")], &place).unwrap();
    let expected = execute(&grid, 1, &Arc::default(), &|_| {}).results;
    let folder = &grid.cells[0].config.out;
    let state = folder.join(paint_run::experiment::STATE_FILE);
    let sound = std::fs::read(&state).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for damaged in [&flipped[..], &sound[..sound.len() / 2], b""] {
        std::fs::remove_file(folder.join(CellResult::FILE)).unwrap();
        std::fs::write(&state, damaged).unwrap();
        let told = Mutex::new(Vec::new());
        let outcome = execute(&grid, 1, &Arc::default(), &|event| {
            if let GridEvent::Restarted { cell, why } = event {
                told.lock().unwrap().push((cell, why.to_owned()));
            }
        });
        assert_eq!((outcome.results, outcome.failures), (expected.clone(), Vec::new()));
        let told = told.into_inner().unwrap();
        assert_eq!(told.len(), 1);
        assert!(told[0].0 == 0 && told[0].1.contains(&*state.display().to_string()), "{told:?}");
        assert!(std::fs::read(&state).unwrap() != damaged);
    }
}

#[test]
fn a_display_that_panics_costs_no_cell() {
    let temp = tempfile::tempdir().unwrap();
    let place = place(temp.path());
    let resolved = protocol().resolve(&place).unwrap();
    let variants = vec![Variant::plain("source"), Variant::plain("tent")];
    let grid = Grid::new(resolved, variants, &place).unwrap();
    for run in ["anew", "found"] {
        let outcome =
            execute(&grid, 2, &Arc::default(), &|event| panic!("the terminal is gone: {event:?}"));
        assert_eq!((outcome.results.len(), outcome.failures.len()), (4, 0), "{run}");
    }
}

#[test]
fn rows_of_the_same_settings_share_their_cells_and_do_not_get_in_each_others_way() {
    let temp = tempfile::tempdir().unwrap();
    let place = place(temp.path());
    let resolved = protocol().resolve(&place).unwrap();
    let variants = vec![Variant::plain("tent"), with("again", "tent", "optimizer = 'momentum'")];
    let grid = Grid::new(resolved, variants, &place).unwrap();
    assert_eq!(grid.cells[0].id, grid.cells[2].id);
    let outcome = execute(&grid, 4, &Arc::default(), &|_| {});
    assert_eq!(outcome.failures, []);
    let labels: Vec<&str> = outcome.results.iter().map(|result| result.label.as_str()).collect();
    assert_eq!(labels, ["tent", "tent", "again", "again"]);
}

#[test]
fn whatever_decides_a_number_makes_another_cell_and_nothing_else_does() {
    let place = place(std::path::Path::new("out"));
    let ids = |protocol: Protocol, place: &Place, variant: Variant| -> Vec<String> {
        let grid = Grid::new(protocol, vec![variant], place).unwrap();
        grid.cells.into_iter().map(|cell| cell.id).collect()
    };
    let base = ids(protocol(), &place, Variant::plain("paint"));
    assert_ne!(base[0], base[1], "seeds");
    let moved = Place { out: "elsewhere".into(), threads: None, data: "d".into(), ..place.clone() };
    assert_eq!(ids(protocol(), &moved, Variant::plain("paint")), base);
    assert_eq!(ids(protocol(), &place, with("another name", "paint", "")), base);
    assert_ne!(ids(protocol(), &place, with("paint", "paint", "eta = 0.25")), base);
    let mut other = protocol();
    other.data.fingerprint = Some("other images".into());
    assert_ne!(ids(other, &place, Variant::plain("paint")), base);
    let mut other = protocol();
    other.fingerprints.probe = Some("other clean images".into());
    assert_ne!(ids(other, &place, Variant::plain("paint")), base);
    let mut other = protocol();
    other.source = Some(toml::from_str("name = \"embedded\"").unwrap());
    let with_source = |fingerprints: [&str; 2], method: &str| {
        let mut other = other.clone();
        other.fingerprints.source = fingerprints.map(str::to_owned).to_vec();
        ids(other, &place, Variant::plain(method))
    };
    let [before, after] = [["a", "b"], ["a", "c"]].map(|of| with_source(of, "eata"));
    assert!(before[0] == after[0] && before[1] != after[1], "one draw changed");
    assert_eq!(with_source(["a", "b"], "paint"), base, "paint looks at no source images");
    let mut other = protocol();
    other.prediction = paint_run::config::Prediction::Before;
    assert_ne!(ids(other, &place, Variant::plain("paint")), base);
}

#[test]
fn what_cannot_run_is_refused_before_anything_does() {
    let place = place(std::path::Path::new("out"));
    let refused = |variants: Vec<Variant>| Grid::new(protocol(), variants, &place).unwrap_err();
    assert!(refused(vec![Variant::plain("pant")]).to_string().contains("known are"));
    assert!(refused(vec![with("a", "paint", "etta = 1")]).to_string().contains("etta"));
    let twice = refused(vec![Variant::plain("tent"), Variant::plain("tent")]);
    assert!(twice.is_usage() && twice.to_string().contains("\"tent\""));
}
