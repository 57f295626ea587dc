//! The memory on vectors small enough to follow by hand.

use super::*;

fn queries(rows: &[[f32; 2]]) -> Queries {
    Queries::new(&Tensor::from_vec(rows.concat(), [rows.len(), 2], &Device::cpu()).unwrap())
        .unwrap()
}

fn config() -> PromptConfig {
    PromptConfig { eta: 0.5, ..PromptConfig::paper(1, 2) }
}

fn memory(config: PromptConfig) -> PromptMemory {
    PromptMemory::new(config, &Device::cpu()).unwrap()
}

fn select(memory: &mut PromptMemory, rows: &[[f32; 2]]) -> Selection {
    let value = memory.allocated() as f32;
    memory.select(&queries(rows), rows.len(), &mut |n| vec![value; n]).unwrap()
}

#[test]
fn the_first_batch_makes_a_prompt_with_its_mean_as_key() {
    let mut memory = memory(config());
    let selection = select(&mut memory, &[[1.0, 0.0], [3.0, 2.0]]);
    let expected =
        Selection { id: 0, allocated: true, reliability: None, votes: vec![], merged: None };
    assert_eq!(selection, expected);
    assert_eq!(memory.key(0), Some([2.0, 1.0].as_slice()));
    assert_eq!(memory.prompt(0).unwrap().shape(), [1, 2]);
}

#[test]
fn the_majority_chooses_and_a_tie_goes_to_the_lowest_index() {
    let mut memory = memory(config());
    select(&mut memory, &[[1.0, 0.0]]);
    assert!(select(&mut memory, &[[-0.1, 1.0]]).allocated);
    let majority = select(&mut memory, &[[0.1, 1.0], [0.2, 1.0], [1.0, 0.1]]);
    assert_eq!((majority.id, majority.allocated, majority.votes), (1, false, vec![1, 2]));
    let tie = select(&mut memory, &[[0.6, 1.0], [1.0, 0.6]]);
    assert_eq!((tie.id, tie.votes), (0, vec![1, 1]));
}

#[test]
fn reliability_is_the_mean_cosine_with_the_winner() {
    let mut memory = memory(config());
    select(&mut memory, &[[2.0, 0.0]]);
    let found = memory.lookup(&queries(&[[3.0, 4.0], [5.0, 0.0]]), 2).unwrap().unwrap();
    assert!((found.reliability.unwrap() - 0.8).abs() < 1e-6);
}

#[test]
fn equality_with_eta_allocates_only_where_the_threshold_includes_it() {
    for (threshold, allocated) in [(Threshold::Below, false), (Threshold::AtOrBelow, true)] {
        let mut memory = memory(PromptConfig { eta: 0.0, threshold, ..config() });
        select(&mut memory, &[[1.0, 0.0]]);
        assert_eq!(select(&mut memory, &[[0.0, 1.0]]).allocated, allocated);
    }
}

#[test]
fn fewer_images_than_queries_raise_the_reliability_of_the_released_code() {
    let rows = [[0.0, 1.0], [0.3, 1.0]];
    for (reliability, allocated) in
        [(Reliability::OverQueries, true), (Reliability::OverImages, false)]
    {
        let mut memory = memory(PromptConfig { eta: 0.2, reliability, ..config() });
        select(&mut memory, &[[1.0, 0.0]]);
        let selection = memory.select(&queries(&rows), 1, &mut |n| vec![0.0; n]).unwrap();
        assert_eq!(selection.allocated, allocated);
    }
}

#[test]
fn the_key_moves_by_one_minus_gamma_and_a_new_key_does_not_move() {
    let mut memory = memory(config());
    let made = select(&mut memory, &[[1.0, 0.0]]);
    memory.update_key(&made, &queries(&[[9.0, 9.0]])).unwrap();
    assert_eq!(memory.key(0), Some([1.0, 0.0].as_slice()));
    let rows = [[1.0, 0.0], [1.0, 1.0]];
    let found = select(&mut memory, &rows);
    memory.update_key(&found, &queries(&rows)).unwrap();
    let key = memory.key(0).unwrap();
    assert!((key[0] - 1.0).abs() < 1e-6 && (key[1] - 0.1).abs() < 1e-6, "{key:?}");
}

#[test]
fn a_lookup_changes_nothing_and_an_empty_memory_has_no_answer() {
    let mut memory = memory(config());
    assert_eq!(memory.lookup(&queries(&[[1.0, 0.0]]), 1).unwrap(), None);
    select(&mut memory, &[[1.0, 0.0]]);
    let found = memory.lookup(&queries(&[[-1.0, 0.0]]), 1).unwrap().unwrap();
    assert_eq!((found.id, found.reliability, memory.len()), (0, Some(-1.0), 1));
}

#[test]
fn a_full_memory_merges_the_nearest_two_by_their_uses() {
    let mut memory = memory(PromptConfig { eta: 0.99, capacity: Some(3), ..config() });
    select(&mut memory, &[[1.0, 0.0]]);
    select(&mut memory, &[[0.0, 1.0]]);
    select(&mut memory, &[[1.0, 0.3]]);
    for _ in 0..2 {
        assert!(!select(&mut memory, &[[1.0, 0.0]]).allocated);
    }
    let selection = select(&mut memory, &[[-1.0, 0.0]]);
    assert_eq!((selection.id, selection.merged), (3, Some((0, 2))));
    assert_eq!(memory.ids(), [0, 1, 3]);
    // Three uses of [1, 0] with prompt 0, one of [1, 0.3] with prompt 2.
    let key = memory.key(0).unwrap();
    assert!((key[0] - 1.0).abs() < 1e-6 && (key[1] - 0.075).abs() < 1e-6, "{key:?}");
    assert_eq!(memory.prompt(0).unwrap().to_vec().unwrap(), [0.5, 0.5]);
    assert!(memory.prompt(2).is_err());
}

#[test]
fn the_oracle_keeps_one_prompt_for_each_domain() {
    let mut memory = memory(config());
    let q = queries(&[[1.0, 0.0]]);
    let mut ask = |domain| memory.select_oracle(domain, &q, &mut |n| vec![0.0; n]).unwrap();
    assert!(ask(4).allocated);
    assert!(ask(1).allocated);
    let again = ask(4);
    assert_eq!((again.id, again.allocated), (4, false));
    assert_eq!(memory.ids(), [4, 1]);
}

#[test]
fn a_saved_memory_comes_back_whole() {
    let mut memory = memory(config());
    select(&mut memory, &[[1.0, 0.0]]);
    select(&mut memory, &[[0.0, 1.0]]);
    let mut other = PromptMemory::new(config(), &Device::cpu()).unwrap();
    other.load(&memory.save().unwrap()).unwrap();
    assert_eq!((other.ids(), other.allocated()), (memory.ids(), memory.allocated()));
    assert_eq!(other.key(1), memory.key(1));
    assert_eq!(
        other.prompt(1).unwrap().to_vec().unwrap(),
        memory.prompt(1).unwrap().to_vec().unwrap()
    );
    assert_eq!(select(&mut other, &[[-1.0, 0.1]]), select(&mut memory, &[[-1.0, 0.1]]));
}

#[test]
fn a_saved_memory_with_a_gap_is_refused_by_the_name_of_what_is_missing() {
    let mut memory = memory(config());
    for row in [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]] {
        assert!(select(&mut memory, &[row]).allocated);
    }
    let whole = memory.save().unwrap();
    let names: Vec<&String> = whole.counters.keys().chain(whole.tensors.keys()).collect();
    for name in names {
        let mut damaged = whole.clone();
        damaged.counters.remove(name);
        damaged.tensors.remove(name);
        let error = memory.load(&damaged).unwrap_err().to_string();
        assert!(error.contains(&format!("{name:?}")), "{error}");
        assert_eq!(memory.len(), 3);
    }
}

#[test]
fn queries_that_are_not_finite_or_have_another_width_are_refused() {
    let nan = Tensor::from_vec(vec![f32::NAN, 0.0], [1, 2], &Device::cpu()).unwrap();
    assert!(matches!(Queries::new(&nan), Err(Error::NotFinite { .. })));
    let mut memory = memory(config());
    select(&mut memory, &[[1.0, 0.0]]);
    let wide = Queries::new(&Tensor::full([1, 3], 1.0, &Device::cpu()).unwrap()).unwrap();
    assert!(matches!(memory.lookup(&wide, 1), Err(Error::Shape { .. })));
}

#[test]
fn a_memory_for_one_prompt_cannot_merge_and_is_refused() {
    assert!(
        PromptMemory::new(PromptConfig { capacity: Some(1), ..config() }, &Device::cpu()).is_err()
    );
}

#[test]
fn a_relative_threshold_asks_for_the_distance_that_chance_would_give() {
    let relative = PromptConfig { eta: 0.25, scale: Scale::Relative, gamma: 0.8, ..config() };
    let mut memory = memory(relative);
    // Both channels have the variance 0.02 / 3: S = 0.04 / 3, tr Σ² = 9/10 · (S² / 2 − S² / 3), f = 20/3, cut to 2.
    let around = |x: f32| [[x + 0.1, 0.0], [x - 0.1, 0.0], [x, 0.1], [x, -0.1]];
    let s = 0.04 / 3.0;
    let reliability = |d: f64| 1.0 / (1.0 + (d - 1.0).max(0.0));
    let check = |selection: &Selection, d: f64| {
        let r = f64::from(selection.reliability.unwrap());
        assert!((r / reliability(d) - 1.0).abs() < 1e-3, "{r} {d}");
    };
    select(&mut memory, &around(1.0));
    let near = select(&mut memory, &around(1.1));
    assert!(!near.allocated);
    check(&near, 0.01 / (2.0 * s / 4.0));
    // The same direction, twice the length.
    let far = select(&mut memory, &around(2.0));
    assert!(far.allocated);
    assert_eq!(far.votes, [4]);
    // A key of two batches is surer: a = 0.64, v = 0.64 + 0.36 / 9.
    memory.update_key(&near, &queries(&around(1.1))).unwrap();
    let key = f64::from(memory.key(0).unwrap()[0]);
    let again = memory.lookup(&queries(&around(1.2)), 4).unwrap().unwrap();
    check(&again, (1.2 - key).powi(2) / (1.68 * s / 4.0));
    assert!(!select(&mut memory, &[[9.0, 9.0]]).allocated, "a single image");
    assert!(!select(&mut memory, &[[9.0, 9.0], [9.0, 8.0]]).allocated, "two images");
}

#[test]
fn with_a_relative_threshold_the_mean_decides_where_most_samples_are_nearer_to_another_key() {
    let relative = PromptConfig { eta: 0.01, scale: Scale::Relative, ..config() };
    let mut memory = memory(relative);
    for x in [0.0, 1.0] {
        memory.allocate(memory.next_id, &queries(&[[x, 0.0]; 2]), &mut |n| vec![0.0; n]).unwrap();
    }
    let batch = [[0.4, 0.0], [0.4, 0.0], [0.4, 0.0], [3.0, 0.0]];
    let found = select(&mut memory, &batch);
    assert_eq!((found.id, found.votes), (1, vec![0, 4]));
}

#[test]
fn channels_that_move_together_count_for_fewer() {
    let relative = PromptConfig { eta: 0.25, scale: Scale::Relative, ..config() };
    let reliability = |first: [[f32; 2]; 4], second: [[f32; 2]; 4]| {
        let mut memory = memory(relative);
        select(&mut memory, &first);
        memory.lookup(&queries(&second), 4).unwrap().unwrap().reliability.unwrap()
    };
    let moved = |rows: [[f32; 2]; 4]| rows.map(|[x, y]| [x + 0.2, y]);
    let apart = [[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1]];
    let together = [[0.1, 0.0], [-0.1, 0.0], [0.1, 0.0], [-0.1, 0.0]];
    assert!(reliability(together, moved(together)) > reliability(apart, moved(apart)));
}

#[test]
fn a_full_memory_with_a_relative_threshold_merges_the_keys_at_the_least_distance() {
    let relative =
        PromptConfig { eta: 0.25, scale: Scale::Relative, capacity: Some(3), ..config() };
    let mut memory = memory(relative);
    // By direction the first and the third are nearest, by distance the second and the third.
    for x in [[1.0, 0.0], [1.0, 3.0], [2.0, 2.0]] {
        assert!(select(&mut memory, &[x; 3]).allocated);
    }
    assert_eq!(select(&mut memory, &[[-9.0, 0.0]; 3]).merged, Some((1, 2)));
}
