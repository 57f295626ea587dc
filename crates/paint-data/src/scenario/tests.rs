//! Properties every scenario keeps, over random datasets and configurations.

use paint_rng::{Rng, Seed};

use super::*;
use crate::{
    Dataset, Domain, Image, Info, Sample,
    corruption::{CORRUPTIONS, Corruption},
    dataset::Memory,
};

const NUM_CLASSES: usize = 6;

/// Domains as in CIFAR-10-C (every corruption at five severities, then clean), each with `len` labelled images.
fn corrupted(len: usize, rng: &mut Rng) -> Memory {
    let labels: Vec<usize> = (0..len).map(|_| rng.below(NUM_CLASSES)).collect();
    let image = Image::new(1, 1, vec![0; 3]).unwrap();
    let samples: Vec<Sample> =
        labels.iter().map(|&l| Sample { image: image.clone(), label: Some(l) }).collect();
    let names = CORRUPTIONS
        .iter()
        .flat_map(|c| (1..=Corruption::MAX_SEVERITY).map(move |s| (c.name, Some(s))));
    let domains = names
        .chain([("clean", None)])
        .map(|(name, severity)| Domain { name: name.into(), severity });
    let info =
        Info { name: "memory", num_classes: NUM_CLASSES, class_indices: None, class_names: None };
    Memory::new(info, domains.map(|domain| (domain, samples.clone())).collect()).unwrap()
}

fn benchmark() -> Vec<&'static str> {
    CORRUPTIONS.iter().filter(|c| !c.held_out).map(|c| c.name).collect()
}

/// Name and severity of each segment, which must hold one domain.
fn segments(data: &dyn Dataset, stream: &Stream) -> Vec<(String, Option<u8>)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for batch in &stream.batches {
        for sample in &batch.samples {
            if found.last() != Some(&(batch.segment, sample.domain)) {
                found.push((batch.segment, sample.domain));
            }
        }
    }
    assert!(found.iter().enumerate().all(|(at, &(segment, _))| at == segment), "{found:?}");
    found
        .iter()
        .map(|&(_, domain)| (data.domains()[domain].name.clone(), data.domains()[domain].severity))
        .collect()
}

fn config(name: &str) -> Config {
    Config { name: name.into(), batch_size: 4, ..Config::default() }
}

fn config_of(entry: &ScenarioEntry) -> Config {
    let visits = (entry.name == "custom")
        .then(|| vec![Visit { domain: "contrast".into(), severity: Some(2) }]);
    Config { visits, ..config(entry.name) }
}

#[test]
fn in_every_scenario_each_visit_holds_every_image_once_in_batches_that_are_full_but_the_last() {
    let mut rng = Seed(11).derive("test", &[]);
    for trial in 0..40 {
        let len = 1 + rng.below(40);
        let data = corrupted(len, &mut rng);
        for entry in SCENARIOS {
            let batch_size = 1 + rng.below(9);
            let shuffle = rng.below(2) == 0;
            let limit = (rng.below(2) == 0).then(|| 1 + rng.below(50));
            let selection = [Selection::First, Selection::Random, Selection::Fresh][rng.below(3)];
            let config = Config { batch_size, limit, selection, shuffle, ..config_of(entry) };
            let stream = config.stream(&data, Seed(trial)).unwrap();
            let kept = limit.unwrap_or(len).min(len);
            let num_visits = match entry.name {
                "gradual" => 9 * benchmark().len(),
                "ramp" => 5 * (benchmark().len() - 1),
                "recurring" => 10 * benchmark().len(),
                "custom" => 1,
                _ => benchmark().len(),
            };
            assert_eq!(stream.num_samples(), num_visits * kept, "{}", entry.name);
            // Each image of a visited domain as often as the domain is visited, and only those the limit keeps.
            let mut samples: Vec<SampleRef> =
                stream.batches.iter().flat_map(|b| b.samples.clone()).collect();
            samples.sort_unstable();
            let runs: Vec<&[SampleRef]> = samples.chunk_by(|a, b| a == b).collect();
            for domain in runs.chunk_by(|a, b| a[0].domain == b[0].domain) {
                // A ramp takes an image from one of two domains, and fresh images differ from visit to visit.
                if entry.name == "ramp" || selection == Selection::Fresh {
                    continue;
                }
                assert_eq!(domain.len(), kept, "{}", entry.name);
                assert!(domain.iter().all(|run| run.len() == domain[0].len()));
            }
            let of_visit = |b: &BatchPlan| b.samples.iter().map(|s| (b.segment, *s)).collect();
            let mut of_visits: Vec<(usize, SampleRef)> =
                stream.batches.iter().flat_map::<Vec<_>, _>(of_visit).collect();
            of_visits.sort_unstable();
            assert!(of_visits.windows(2).all(|pair| pair[0] != pair[1]), "{}", entry.name);
            for pair in stream.batches.windows(2) {
                assert!(pair[0].samples.len() == batch_size || pair[0].segment != pair[1].segment);
                assert!((1..=batch_size).contains(&pair[1].samples.len()));
            }
        }
    }
}

#[test]
fn fresh_images_come_at_every_visit_until_each_was_seen() {
    let data = corrupted(10, &mut Seed(2).derive("test", &[]));
    let domains = Some(vec!["fog".into(), "contrast".into()]);
    let config = Config {
        rounds: Some(3),
        limit: Some(4),
        selection: Selection::Fresh,
        domains,
        ..config("recurring")
    };
    let images = |seed| -> Vec<usize> {
        let stream = config.stream(&data, Seed(seed)).unwrap();
        stream.batches.iter().flat_map(|batch| &batch.samples).map(|sample| sample.index).collect()
    };
    let (found, other) = (images(0), images(1));
    assert_eq!(found.len(), 2 * 3 * 4);
    assert_ne!(found, other);
    // Two visits of four take eight of the ten images; then comes a new order.
    for pass in found.chunks_exact(8) {
        let mut pass = pass.to_vec();
        pass.sort_unstable();
        pass.dedup();
        assert_eq!(pass.len(), 8, "{found:?}");
    }
    // A corruption meets other images in the next round, although the rounds are as long as an order.
    assert!(found[..4] != found[8..12] && found[8..12] != found[16..20], "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_stream_and_another_seed_another() {
    let data = corrupted(30, &mut Seed(2).derive("test", &[]));
    for entry in SCENARIOS {
        let config = Config { shuffle: true, ..config_of(entry) };
        let stream = |seed| config.stream(&data, Seed(seed)).unwrap();
        assert_eq!(stream(5), stream(5), "{}", entry.name);
        assert_ne!(stream(5), stream(6), "{}", entry.name);
    }
}

#[test]
fn domains_follow_the_benchmark_the_list_or_the_embedded_order() {
    let data = corrupted(5, &mut Seed(2).derive("test", &[]));
    let names = |config: Config| {
        let found = segments(&data, &config.stream(&data, Seed(0)).unwrap());
        assert!(found.iter().all(|(_, severity)| *severity == Some(config.severity.unwrap_or(5))));
        found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(config("continual")), benchmark());
    let listed = Some(vec!["contrast".into(), "shot_noise".into()]);
    assert_eq!(
        names(Config { domains: listed.clone(), severity: Some(2), ..config("continual") }),
        ["contrast", "shot_noise"]
    );
    let ordered = Config { domains: listed, order: Some("paint_1".into()), ..config("reset_each") };
    assert_eq!(names(ordered), ["shot_noise", "contrast"]);
    let twice = names(Config { rounds: Some(2), ..config("recurring") });
    assert_eq!(twice, [benchmark(), benchmark()].concat());
}

#[test]
fn only_reset_each_resets_and_only_where_a_new_domain_begins() {
    let data = corrupted(9, &mut Seed(2).derive("test", &[]));
    for entry in SCENARIOS {
        let stream = config_of(entry).stream(&data, Seed(0)).unwrap();
        let mut last = 0;
        for batch in &stream.batches {
            assert_eq!(batch.reset_before, entry.name == "reset_each" && batch.segment != last);
            last = batch.segment;
        }
    }
}

#[test]
fn a_gradual_stream_rises_and_falls_and_the_cotta_variant_starts_at_the_top() {
    let data = corrupted(3, &mut Seed(2).derive("test", &[]));
    let path = |path| {
        let stream = Config { path, ..config("gradual") }.stream(&data, Seed(0)).unwrap();
        segments(&data, &stream)
    };
    let rise_and_fall = [1, 2, 3, 4, 5, 4, 3, 2, 1];
    let whole = path(None);
    assert_eq!(whole.len(), 9 * benchmark().len());
    for (visits, name) in whole.chunks(9).zip(benchmark()) {
        assert!(visits.iter().all(|visit| visit.0 == name));
        assert_eq!(visits.iter().map(|visit| visit.1.unwrap()).collect::<Vec<_>>(), rise_and_fall);
    }
    assert_eq!(path(Some(Path::Cotta)), whole[4..]);
}

#[test]
fn a_mixed_stream_mixes_domains_by_sample_or_by_batch() {
    let data = corrupted(20, &mut Seed(2).derive("test", &[]));
    let stream = |mixing| Config { mixing, ..config("mixed") }.stream(&data, Seed(0)).unwrap();
    let one_domain =
        |batch: &BatchPlan| batch.samples.iter().all(|s| s.domain == batch.samples[0].domain);
    let by_sample = stream(None);
    assert!(
        by_sample.batches.iter().filter(|batch| one_domain(batch)).count()
            < by_sample.batches.len() / 4
    );
    assert!(by_sample.batches.iter().all(|batch| batch.segment == 0));
    let by_batch = stream(Some(Mixing::Batches));
    assert!(by_batch.batches.iter().all(one_domain));
    let domains: Vec<usize> =
        by_batch.batches.iter().map(|batch| batch.samples[0].domain).collect();
    assert!(!domains.is_sorted());
    assert!(by_batch.batches.iter().enumerate().all(|(at, batch)| batch.segment == at));
}

/// How often two neighbours of a segment share their class.
fn repeats(data: &dyn Dataset, stream: &Stream) -> f64 {
    let label = |(segment, s): &(usize, SampleRef)| (*segment, data.label(s.domain, s.index));
    let all: Vec<_> =
        stream.batches.iter().flat_map(|b| b.samples.iter().map(|&s| (b.segment, s))).collect();
    all.windows(2).filter(|pair| label(&pair[0]) == label(&pair[1])).count() as f64
        / all.len() as f64
}

#[test]
fn correlation_falls_with_delta_and_sorting_has_the_most() {
    let data = corrupted(600, &mut Seed(2).derive("test", &[]));
    let share = |correlation, delta| {
        let config = Config { correlation, delta, ..config("correlated") };
        repeats(&data, &config.stream(&data, Seed(0)).unwrap())
    };
    let plain = repeats(&data, &config("continual").stream(&data, Seed(0)).unwrap());
    let sorted = share(Some(Correlation::Sorted), None);
    let (small, large) = (share(None, Some(0.01)), share(None, Some(100.0)));
    // Six classes at random repeat one time in six; sorted, five of 600 neighbours differ.
    assert!((plain - 1.0 / 6.0).abs() < 0.03 && sorted > 0.98, "{plain} {sorted}");
    // With a large delta each of the six slots still comes class by class: at most 36 changes in 600.
    assert!(small > large && large > 0.9, "{small} {large}");
}

#[test]
fn a_recurring_stream_can_be_correlated() {
    let data = corrupted(600, &mut Seed(2).derive("test", &[]));
    let stream = |config: Config| config.stream(&data, Seed(0)).unwrap();
    let twice = |delta| stream(Config { rounds: Some(2), delta, ..config("recurring") });
    let (plain, correlated) = (twice(None), twice(Some(0.1)));
    assert_eq!(segments(&data, &plain), segments(&data, &correlated));
    assert!(repeats(&data, &correlated) > 0.8 && repeats(&data, &plain) < 0.3);
    // The first round is that of the correlated scenario.
    let once = stream(Config { delta: Some(0.1), ..config("correlated") });
    assert_eq!(once.batches, correlated.batches[..once.batches.len()]);
}

#[test]
fn under_label_shift_each_class_has_a_period_in_which_it_prevails() {
    let data = corrupted(600, &mut Seed(2).derive("test", &[]));
    let only = Some(vec!["contrast".to_owned()]);
    let classes = |ratio| {
        let config = Config { ratio, domains: only.clone(), ..config("label_shift") };
        let stream = config.stream(&data, Seed(0)).unwrap();
        let samples = stream.batches.into_iter().flat_map(|batch| batch.samples);
        samples.map(|s| data.label(s.domain, s.index).unwrap()).collect::<Vec<_>>()
    };
    let prevailing = |labels: &[usize]| {
        let count = |class| labels.iter().filter(|&&label| label == class).count();
        (0..NUM_CLASSES).map(|class| (count(class), class)).max().unwrap()
    };
    // The last period takes what the others left.
    let periods: Vec<(usize, usize)> = classes(None).chunks(100).map(prevailing).take(5).collect();
    assert!(periods.iter().all(|&(count, _)| count > 70), "{periods:?}");
    let mut found: Vec<usize> = periods.iter().map(|&(_, class)| class).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 5, "{periods:?}");
    assert!(classes(Some(1.0)).chunks(100).all(|labels| prevailing(labels).0 < 35));
}

#[test]
fn interleaved_domains_return_in_visits_of_several_lengths() {
    let data = corrupted(80, &mut Seed(2).derive("test", &[]));
    let visits = |delta| {
        let stream = Config { delta, ..config("interleaved") }.stream(&data, Seed(0)).unwrap();
        let lengths: Vec<usize> =
            stream.batches.chunk_by(|a, b| a.segment == b.segment).map(<[_]>::len).collect();
        assert_eq!(lengths.len(), segments(&data, &stream).len());
        lengths
    };
    let usual = visits(None);
    assert!(usual.len() > 2 * benchmark().len() && usual.iter().any(|&n| n != usual[0]));
    // Each domain in one piece, or in three of the same length.
    assert!(visits(Some(1e-3)).len() < benchmark().len() + 3);
    assert!(visits(Some(1e9)).iter().all(|n| (6..=7).contains(n)));
}

#[test]
fn a_ramp_goes_from_each_corruption_to_the_next() {
    let data = corrupted(500, &mut Seed(2).derive("test", &[]));
    let listed = Some(vec!["contrast".into(), "fog".into(), "snow".into()]);
    let stream = Config { domains: listed, ..config("ramp") }.stream(&data, Seed(0)).unwrap();
    let visits: Vec<&[BatchPlan]> =
        stream.batches.chunk_by(|a, b| a.segment == b.segment).collect();
    assert_eq!(visits.len(), 10);
    for (at, visit) in visits.into_iter().enumerate() {
        let (names, step) = ([["contrast", "fog"], ["fog", "snow"]][at / 5], at % 5);
        let samples: Vec<SampleRef> = visit.iter().flat_map(|b| b.samples.clone()).collect();
        let domain = |sample: &SampleRef| &data.domains()[sample.domain];
        let (rising, falling): (Vec<&SampleRef>, Vec<&SampleRef>) =
            samples.iter().partition(|sample| domain(sample).name == names[1]);
        let severity = |samples: &[&SampleRef], of: u8| {
            samples.iter().all(|sample| domain(sample).severity == Some(of))
        };
        assert!(severity(&rising, step as u8 + 1) && severity(&falling, 5 - step as u8));
        assert!(falling.iter().all(|sample| domain(sample).name == names[0]));
        // Five standard errors of 500 draws are less than 60.
        assert!(rising.len().abs_diff(50 + 100 * step) < 60, "{} at {step}", rising.len());
    }
}

#[test]
fn dirichlet_slots_hold_the_counts_of_their_shares() {
    // With a huge delta every share is 1/6, so each slot holds a sixth of each class, give or take the rounding.
    let data = corrupted(3600, &mut Seed(2).derive("test", &[]));
    let only = Some(vec!["contrast".to_owned()]);
    let config = Config { delta: Some(1e9), domains: only, ..config("correlated") };
    let stream = config.stream(&data, Seed(0)).unwrap();
    let labels: Vec<usize> = stream
        .batches
        .iter()
        .flat_map(|b| &b.samples)
        .map(|s| data.label(s.domain, s.index).unwrap())
        .collect();
    let counts = |labels: &[usize]| {
        (0..NUM_CLASSES).map(|c| labels.iter().filter(|&&l| l == c).count()).collect::<Vec<_>>()
    };
    let slots: Vec<Vec<usize>> = labels.chunk_by(|a, b| a <= b).map(counts).collect();
    assert_eq!(slots.len(), NUM_CLASSES);
    for (class, total) in counts(&labels).into_iter().enumerate() {
        assert!(
            slots.iter().all(|slot| slot[class].abs_diff(total / NUM_CLASSES) <= 1),
            "{class} of {total}: {slots:?}"
        );
    }
}

#[test]
fn wrong_configurations_are_refused_by_name() {
    let data = corrupted(3, &mut Seed(2).derive("test", &[]));
    let cases = [
        (config("cyclic"), "recurring"),
        (Config { delta: Some(0.1), ..config("continual") }, "delta"),
        (Config { severity: Some(3), ..config("gradual") }, "severity"),
        (Config { severity: Some(6), ..config("continual") }, "severity: expected 1 to 5, got 6"),
        (Config { domains: Some(vec!["rain".into()]), ..config("continual") }, "rain"),
        (Config { order: Some("paint_10".into()), ..config("continual") }, "paint_9"),
        (Config { domains: Some(vec!["clean".into()]), ..config("gradual") }, "clean"),
        (Config { batch_size: 0, ..config("continual") }, "batch_size"),
        (Config { delta: Some(-1.0), ..config("correlated") }, "delta"),
        (Config { rounds: Some(0), ..config("recurring") }, "rounds"),
        (Config { delta: Some(0.0), ..config("interleaved") }, "delta"),
        (Config { ratio: Some(0.5), ..config("label_shift") }, "ratio"),
        (Config { ratio: Some(f64::INFINITY), ..config("label_shift") }, "ratio"),
        (Config { ratio: Some(9.0), ..config("correlated") }, "ratio"),
        (Config { domains: Some(vec!["contrast".into()]), ..config("ramp") }, "two or more"),
        (Config { severity: Some(5), ..config("ramp") }, "severity"),
        (config("custom"), "at least one image"),
        (Config { limit: Some(0), ..config("mixed") }, "at least one image"),
    ];
    for (config, named) in cases {
        let error = config.stream(&data, Seed(0)).unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
}

#[test]
fn a_custom_list_visits_clean_images_between_corruptions() {
    let data = corrupted(5, &mut Seed(2).derive("test", &[]));
    let visit = |domain: &str, severity| Visit { domain: domain.into(), severity };
    let visits =
        Some(vec![visit("contrast", Some(3)), visit("clean", None), visit("contrast", Some(3))]);
    let stream = Config { visits, ..config("custom") }.stream(&data, Seed(0)).unwrap();
    let found = segments(&data, &stream);
    assert_eq!(
        found,
        [("contrast".into(), Some(3)), ("clean".into(), None), ("contrast".into(), Some(3))]
    );
}
