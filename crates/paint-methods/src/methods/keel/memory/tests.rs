//! Which domain keys are assigned to.

use paint_rng::Seed;

use super::*;

/// Keys of 50 images around `centre` in every channel, with the spread of real ones.
fn keys(centre: f64, seed: u64) -> Keys {
    let mut rng = Seed(seed).derive("keys", &[]);
    let row = |_| (0..64).map(|_| (centre + 0.9 * rng.normal()) as f32).collect();
    Keys::of((0..50).map(row).collect(), 300)
}

#[test]
fn domains_half_a_deviation_apart_are_told_apart_and_known_again() {
    let mut memory = Memory::default();
    let mut assign = |centre, seed| memory.assign(&keys(centre, seed), true, 1, (16, 200)).unwrap();
    let places = [1.0, 1.0, 0.5, 0.5, 1.0, 0.5].into_iter().zip(1..);
    let found: Vec<_> = places.map(|(centre, seed)| assign(centre, seed)).collect();
    assert_eq!(found, [0, 0, 1, 1, 0, 1].map(Some));
}

#[test]
fn clean_images_are_of_no_domain_before_and_after_one_that_is_near() {
    let mut memory = Memory::default();
    let centres = [0.0, 0.05, 0.5, 0.5, 0.0, 0.5].into_iter().zip(1..);
    let found: Vec<_> = centres
        .map(|(centre, seed)| {
            let keys = keys(centre, seed);
            let at = memory.assign(&keys, true, 1, (16, 200)).unwrap();
            assert_eq!(memory.find(&keys), at);
            at
        })
        .collect();
    assert_eq!(found, [None, None, Some(0), Some(0), None, Some(0)]);
}

#[test]
fn a_domain_that_is_near_to_clean_images_is_found_in_many_and_not_in_runs_of_a_class() {
    let found = |centre: f64, is_mixed: bool| {
        let mut memory = Memory::default();
        (0..12).find(|&seed| {
            memory.assign(&keys(centre, seed), is_mixed, 1, (16, 200)).unwrap().is_some()
        })
    };
    assert_eq!(found(0.0, true), None);
    assert!(found(0.3, true).is_some_and(|batches| (1..6).contains(&batches)));
    assert_eq!(found(0.3, false), None);
}

/// One image whose key is `centre` in every channel, give or take `spread` standard deviations.
fn single(centre: f64, spread: f64, seed: u64) -> Keys {
    let mut rng = Seed(seed).derive("single", &[]);
    let row = (0..64).map(|_| (centre + spread * rng.normal()) as f32).collect();
    Keys::of(vec![row], 300)
}

#[test]
fn single_images_tell_the_spread_of_their_domain() {
    let mut memory = Memory::default();
    for seed in 0..200 {
        memory.assign(&single(2.0, 0.7, seed), true, 1, (16, 200)).unwrap();
    }
    let [domain] = &memory.domains[..] else { panic!("{} domains", memory.domains.len()) };
    assert!((domain.spread - 0.49).abs() < 0.1, "{}", domain.spread);
}

#[test]
fn an_image_between_two_is_of_the_present_domain_or_clean_where_it_does_not_follow() {
    let mut memory = Memory::default();
    memory.assign(&keys(1.0, 1), true, 1, (16, 200)).unwrap();
    let between = single(0.5, 0.0, 2);
    assert_eq!(memory.find(&between), Some(0));
    memory.leave();
    assert_eq!(memory.find(&between), None);
    assert_eq!(memory.find(&single(2.0, 0.0, 2)), Some(0), "what fits far better is known again");
}
