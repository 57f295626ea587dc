use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use paint_methods::Registry;
use toml::toml;

use super::*;
use crate::grid::tests::{place, protocol};
use crate::grid::{CellResult, Grid, Outcome, execute};

/// A search over two held-out corruptions of a few embedded images.
fn request(out: &Path, asked: &[&str]) -> Request {
    let mut protocol = protocol();
    protocol.scenario.name = "recurring".into();
    protocol.scenario.rounds = Some(2);
    protocol.scenario.domains = Some(vec!["saturate".into(), "spatter".into()]);
    let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
    Request {
        protocol,
        place: place(out),
        method: "tent".into(),
        space: Space::new(Registry::default().find("tent").unwrap(), &asked).unwrap(),
        budget: Budget { candidates: 5, images: 12, seeds: vec![0, 1], rounds: 2 },
    }
}

/// The outcome of one real run.
fn one_run(request: &Request) -> Outcome {
    // So many candidates that the first stage is not the last, which is longer.
    let budget = Budget { candidates: 4, images: 4, seeds: vec![0], rounds: 2 };
    let mut grid = Request { budget, ..request.clone() }.first_grid().unwrap();
    grid.cells.truncate(1);
    let outcome = execute(&grid, 1, &Arc::default(), &|_| {});
    assert_eq!(outcome.results.len(), 1, "{:?}", outcome.failures);
    outcome
}

/// What the cells of a grid would give if the accuracy were a function of the rate.
fn pretended(grid: &Grid, real: &Outcome, accuracy: impl Fn(f64) -> Option<f64>) -> Outcome {
    let mut outcome = Outcome::default();
    for cell in &grid.cells {
        let lr = cell.config.method.settings["lr"].as_float().unwrap();
        let Some(mean_accuracy) = accuracy(lr) else { continue };
        let mut result = real.results[0].clone();
        result.label.clone_from(&cell.label);
        let visits = 2 * grid.protocol.scenario.rounds.unwrap();
        result.visits = result.visits.iter().cycle().take(visits).cloned().collect();
        reach(&mut result, mean_accuracy + 0.01 * cell.config.seed as f64);
        outcome.results.push(result);
    }
    outcome
}

/// The same accuracy at every visit.
fn reach(result: &mut CellResult, accuracy: f64) {
    visit(result, [accuracy; 4]);
}

/// Two corruptions in the first round, and again in the last.
fn visit(result: &mut CellResult, accuracy: [f64; 4]) {
    let last = result.visits.len() - 2;
    for (at, visit) in result.visits.iter_mut().enumerate() {
        let of = if at < last { at % 2 } else { 2 + at - last };
        visit.figures.accuracy = Some(accuracy[of]);
    }
    result.mean_accuracy = accuracy.iter().sum::<f64>() / accuracy.len() as f64;
}

#[test]
fn the_best_rate_is_found_with_its_margin_and_its_surroundings() {
    let temp = tempfile::tempdir().unwrap();
    let mut request = request(temp.path(), &["lr=1e-5..1e-1"]);
    request.budget.candidates = 27;
    // A hill over the magnitudes with its top at 1e-2; what is steeper diverges.
    let hill = |lr: f64| (lr < 0.05).then(|| 80.0 - (lr.log10() + 2.0).powi(2));
    let real = one_run(&request);
    let mut stages = Vec::new();
    let mut measure = |what: &str, grid: &Grid| {
        stages.push((what.to_owned(), grid.cells.len()));
        pretended(grid, &real, hill)
    };
    let tuned = request.tune(&mut measure).unwrap().unwrap();
    let counts: Vec<usize> = stages.iter().map(|(_, cells)| *cells).collect();
    assert_eq!(counts, [27, 9, 6, 2], "{stages:?}");
    let lr = tuned.chosen["lr"].as_float().unwrap();
    assert!((lr.log10() + 2.0).abs() < 0.1, "{lr}");
    assert_eq!(tuned.settings["lr"].as_float(), Some(lr));
    assert_eq!(tuned.settings["preset"].as_str(), Some("vit_cifar10"));
    let gain = tuned.gain().unwrap();
    assert!(gain.points > 1.0 && gain.wins == 2, "{gain:?}");
    assert!(tuned.lead().unwrap().points >= 0.0);
    assert_eq!(tuned.neighbours.len(), 2);
    assert!(tuned.neighbours.iter().all(|one| one.change.is_some_and(|change| change < 0.0)));
    assert!(tuned.failed >= 1 && tuned.at_edge.is_empty(), "{tuned:?}");
    let text = tuned.text();
    let Rung { images, rounds, ref seeds, .. } = tuned.neighbours_stage;
    assert_eq!((images, rounds, seeds.len()), (4, 2, 1), "the stage before the last");
    let surroundings = "points are lost there (4 images per visit, 2 rounds, one seed)";
    for part in ["in every seed", "flat", surroundings, "as those that diverge do", "% of all"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Twelve images in batches of four, two corruptions, three times two rounds in the last stage.
    assert!(tuned.batches == 36 && text.contains("stream     36 batches"), "{text}");
    assert_eq!(tuned.preset().evidence["batches"].as_integer(), Some(36));
    assert_eq!(tuned.preset().settings, tuned.settings);
}

#[test]
fn the_usual_settings_stay_where_nothing_is_better_and_ends_are_told() {
    let temp = tempfile::tempdir().unwrap();
    let request = request(temp.path(), &["lr=0.000781..0.1"]);
    let real = one_run(&request);
    let tuned =
        request.tune(&mut |_, grid| pretended(grid, &real, |lr| Some(-lr))).unwrap().unwrap();
    assert!(tuned.finalists[0].is_usual && tuned.gain().is_none());
    assert_eq!(tuned.at_edge, ["lr"]);
    let text = tuned.text();
    assert!(
        text.contains("no candidate was clearly better") && !text.contains("stream "),
        "{text}"
    );
    assert!(text.contains("--search lr=LOW..HIGH"), "{text}");
    // A candidate that is better on average, but within the standard error, is no reason to leave them.
    let by_luck = |grid: &Grid| {
        let mut outcome = pretended(grid, &real, |_| Some(50.0));
        let others = outcome.results.iter_mut().filter(|one| one.label != "as it is");
        for (index, one) in others.enumerate() {
            reach(one, if index % 2 == 0 { 55.0 } else { 49.0 });
        }
        outcome
    };
    let tuned = request.tune(&mut |_, grid| by_luck(grid)).unwrap().unwrap();
    assert!(tuned.finalists[0].is_usual, "{tuned:?}");
    assert!(tuned.lead().unwrap().points < 0.0, "{tuned:?}");
    // Two gains outweigh a small loss, but not one that makes the standard error larger than their mean.
    let mut with_three = request.clone();
    with_three.budget.seeds = vec![0, 1, 2];
    for (seeds, is_chosen) in [([52.4, 49.7, 51.8], true), ([52.4, 48.6, 51.8], false)] {
        let mostly = |grid: &Grid| {
            let mut outcome = pretended(grid, &real, |_| Some(50.0));
            let others = outcome.results.iter_mut().filter(|one| one.label != "as it is");
            let seeds = seeds.iter().cycle();
            others.zip(seeds).for_each(|(one, &accuracy)| reach(one, accuracy));
            outcome
        };
        let tuned = with_three.tune(&mut |_, grid| mostly(grid)).unwrap().unwrap();
        assert_eq!(!tuned.finalists[0].is_usual, is_chosen, "{tuned:?}");
        let told = tuned.text().contains("points for the choice, in 2 of 3 seeds");
        assert_eq!(told, is_chosen, "{}", tuned.text());
    }
    // What the others reach visit by visit, where the usual settings have 50 throughout, and whether one is chosen.
    let cases = [
        ([55.0, 55.0, 55.0, 55.0], true),
        // Not worth it.
        ([50.4, 50.4, 50.4, 50.4], false),
        // Better on average, worse by the end, and that is told.
        ([70.0, 70.0, 49.0, 49.0], false),
        // A corruption is lost on the way.
        ([55.0, 55.0, 70.0, 45.0], false),
        // One is worse from the beginning, and stays as it is.
        ([70.0, 45.0, 70.0, 45.0], true),
    ];
    for (accuracy, is_chosen) in cases {
        let others = |grid: &Grid| {
            let mut outcome = pretended(grid, &real, |_| Some(50.0));
            let others = outcome.results.iter_mut().filter(|one| one.label != "as it is");
            others.for_each(|one| visit(one, accuracy));
            outcome
        };
        let tuned = request.tune(&mut |_, grid| others(grid)).unwrap().unwrap();
        assert_eq!(!tuned.finalists[0].is_usual, is_chosen, "{accuracy:?}: {tuned:?}");
        let text = tuned.text();
        let told = text.contains("(ranked as 49.00 %: a last round counts");
        assert_eq!(told, accuracy[3] == 49.0, "{text}");
    }
    let error = request.tune(&mut |_, _| Outcome::default()).unwrap_err().to_string();
    assert!(error.contains("every candidate failed"), "{error}");
}

#[test]
fn a_better_neighbour_is_measured_like_the_last_candidates_and_taken() {
    let temp = tempfile::tempdir().unwrap();
    let mut request = request(temp.path(), &["lr=1e-5..1e-1"]);
    request.budget.candidates = 3;
    let real = one_run(&request);
    // The top lies between the candidates 1e-4, 1e-3 and the usual rate.
    let hill = |lr: f64| Some(80.0 - 10.0 * (lr.log10() + 2.6).powi(2));
    let mut stages = Vec::new();
    let mut measure = |_: &str, grid: &Grid| {
        stages.push(grid.cells.len());
        pretended(grid, &real, hill)
    };
    let tuned = request.tune(&mut measure).unwrap().unwrap();
    assert_eq!(stages, [6, 2, 2, 2]);
    assert_eq!(tuned.chosen["lr"].as_float(), Some(0.00251), "{tuned:?}");
    assert_eq!((tuned.finalists.len(), tuned.work.runs), (4, 12));
    let neighbours: Vec<_> = tuned.neighbours.iter().map(|one| &one.value).collect();
    assert!(!neighbours.contains(&&tuned.chosen["lr"]), "{tuned:?}");
    // There is only one stage.
    let Rung { images, rounds, seeds, .. } = &tuned.neighbours_stage;
    assert_eq!((*images, *rounds, seeds.len()), (12, 6, 1));
    assert!(tuned.neighbours.iter().all(|one| one.change.is_some_and(|change| change < 0.0)));
}

#[test]
fn a_search_that_is_stopped_in_any_stage_makes_no_choice() {
    let temp = tempfile::tempdir().unwrap();
    let request = request(temp.path(), &[]);
    let real = one_run(&request);
    // Two stages, what lies beside the best candidate, the better one there, and what lies beside that.
    for stop_in in 1..=6 {
        let mut stage = 0;
        let mut measure = |_: &str, grid: &Grid| {
            stage += 1;
            let unfinished = usize::from(stage == stop_in);
            Outcome { unfinished, ..pretended(grid, &real, |lr| Some(100.0 * lr)) }
        };
        assert_eq!(request.tune(&mut measure).unwrap().is_some(), stop_in == 6, "{stop_in}");
    }
}

#[test]
fn settings_are_not_chosen_on_corruptions_of_a_benchmark() {
    let temp = tempfile::tempdir().unwrap();
    let message = |change: fn(&mut Request)| {
        let mut request = request(temp.path(), &[]);
        change(&mut request);
        let error = request.check().unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    let fog = message(|r| r.protocol.scenario.domains = Some(vec!["spatter".into(), "fog".into()]));
    assert!(fog.contains("expected ") && fog.contains("got \"fog\""), "{fog}");
    assert!(message(|r| r.protocol.scenario.domains = None).contains("got none"));
    let candidates = message(|r| r.budget.candidates = 1);
    assert!(candidates.contains("candidates: expected 2 to 100000, got 1"), "{candidates}");
    assert!(message(|r| r.budget.rounds = usize::MAX).contains("scenario.rounds: expected 1 to"));
    let twice = message(|r| r.protocol.scenario.domains = Some(vec!["spatter".into(); 2]));
    assert!(twice.contains("got spatter twice"), "{twice}");
    assert!(message(|r| r.budget.seeds.clear()).contains("seeds"));
    let settings = BTreeMap::from([("tent".to_owned(), toml! { rate = 1.0 })]);
    let mut wrong = request(temp.path(), &[]);
    wrong.protocol.settings = settings;
    assert!(wrong.check().unwrap_err().to_string().contains("rate"));
    let names: Vec<&str> = held_out().collect();
    let alone = ["speckle_noise", "gaussian_blur", "spatter", "saturate"];
    let pairs = ["spatter+gaussian_blur", "saturate+speckle_noise"];
    assert_eq!(names, [&alone[..], &pairs].concat());
}
