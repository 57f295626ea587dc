//! Recorded computations.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use paint_tensor::{Precision, Result, Routine, Tensor};

use crate::cases::values;
use crate::device::gpu;

#[test]
fn a_routine_is_recorded_and_replays_the_bits_of_its_computation() {
    for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
        let Some(device) = gpu(precision) else { return };
        let tensor = |seed: usize, shape: &[usize]| {
            Tensor::from_vec(values(shape.iter().product(), seed), shape, &device).unwrap()
        };
        let frozen = tensor(0, &[24, 16]);
        // Gradients of a loss through a frozen and a given layer: `[x, w]` to `[y, dL/dw]`.
        let compute = |given: &[Tensor]| -> Result<Vec<Tensor>> {
            let w = given[1].variable();
            let y = given[0].compact()?.linear(&frozen, None)?.linear(&w, None)?;
            let loss = y.log_softmax()?.sum_all()?;
            let gradients = loss.backward()?;
            Ok(vec![y.detach(), gradients.get(&w).expect("w is used").clone()])
        };
        let routine = Routine::default();
        for (step, rows) in [6, 6, 6, 6, 4, 6, 6, 4, 4, 4, 4].into_iter().enumerate() {
            let (x, w) = (tensor(step, &[rows, 16]), tensor(step + 50, &[10, 24]));
            let given = routine.run(&[&x, &w], compute).unwrap();
            for (given, expected) in given.iter().zip(compute(&[x, w]).unwrap()) {
                assert_eq!(given.shape(), expected.shape());
                assert_eq!(given.to_vec().unwrap(), expected.to_vec().unwrap(), "call {step}");
            }
            assert_eq!(routine.is_recorded(), !matches!(step, 0 | 4 | 7), "call {step}");
        }
    }
}

#[test]
fn a_routine_takes_inputs_of_another_kind_and_survives_a_panic() {
    let Some(device) = gpu(Precision::Bf16) else { return };
    let x = Tensor::from_vec(values(64, 1), [8, 8], &device).unwrap();
    let scaled = |given: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![given[0].scale(2.0)?]) };
    let routine = Routine::default();
    for input in [&x.compact().unwrap(), &x.compact().unwrap(), &x, &x.compact().unwrap()] {
        let given = routine.run(&[input], scaled).unwrap()[0].to_vec().unwrap();
        assert_eq!(given, scaled(std::slice::from_ref(input)).unwrap()[0].to_vec().unwrap());
    }
    let (routine, calls) = (Routine::default(), Cell::new(0));
    let panics = |given: &[Tensor]| -> Result<Vec<Tensor>> {
        calls.set(calls.get() + 1);
        assert_ne!(calls.get(), 2, "as a defect would, while it is recorded");
        scaled(given)
    };
    routine.run(&[&x], panics).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| routine.run(&[&x], panics))).is_err());
    let expected = scaled(std::slice::from_ref(&x)).unwrap()[0].to_vec().unwrap();
    assert_eq!(routine.run(&[&x], panics).unwrap()[0].to_vec().unwrap(), expected);
}

#[test]
fn a_routine_that_needs_the_host_is_done_every_time() {
    let Some(device) = gpu(Precision::F32) else { return };
    let routine = Routine::default();
    for step in 0..5 {
        let x = Tensor::full([3], step as f32, &device).unwrap();
        let compute = |given: &[Tensor]| -> Result<Vec<Tensor>> {
            let host = given[0].to_vec()?;
            Ok(vec![Tensor::from_vec(host, [3], given[0].device())?])
        };
        assert_eq!(routine.run(&[&x], compute).unwrap()[0].to_vec().unwrap(), [step as f32; 3]);
        assert!(!routine.is_recorded());
    }
}

#[test]
fn a_replay_comes_between_no_kernels_of_another_thread() {
    let Some(device) = gpu(Precision::F32) else { return };
    let tensor = |seed: usize, shape: &[usize]| {
        Tensor::from_vec(values(shape.iter().product(), seed), shape, &device).unwrap()
    };
    let [wide, narrow] = [tensor(0, &[60, 20]), tensor(1, &[20, 60])];
    let affine = [tensor(2, &[20]), tensor(3, &[20])];
    // Products of such sizes are split over their depth and summed by a second kernel.
    let products = |given: &[Tensor]| -> Result<Vec<Tensor>> {
        let layer = |x: Tensor| x.linear(&wide, None)?.linear(&narrow, None);
        let layers = (0..8)
            .try_fold(given[0].clone(), |x, _| layer(x)?.layer_norm(&affine[0], &affine[1], 1e-6));
        Ok(vec![layers?])
    };
    let numbers = |given: Result<Vec<Tensor>>| given.unwrap()[0].to_vec().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (numbers, products) = (&numbers, &products);
            let [recorded, plain] = [84, 56].map(|rows| tensor(4 + thread, &[rows, 20]));
            scope.spawn(move || {
                let routine = Routine::default();
                let expected =
                    [&recorded, &plain].map(|x| numbers(products(std::slice::from_ref(x))));
                for call in 0..100 {
                    let found = numbers(routine.run(&[&recorded], products));
                    assert!(found == expected[0], "replay {call}");
                    assert!(
                        numbers(products(std::slice::from_ref(&plain))) == expected[1],
                        "call {call}"
                    );
                }
                assert!(routine.is_recorded());
            });
        }
    });
}

#[test]
fn a_tensor_exchanged_for_another_is_read_by_the_next_call() {
    let Some(device) = gpu(Precision::F32) else { return };
    let routine = Routine::default();
    let x = Tensor::full([4], 1.0, &device).unwrap();
    let mut weight = Tensor::full([4], 0.0, &device).unwrap();
    for call in 0..9 {
        if call % 3 == 0 {
            // The old one is dropped, and its memory would be handed out again.
            weight = Tensor::full([4], call as f32, &device).unwrap();
        }
        let others: Vec<Tensor> =
            (0..8).map(|_| Tensor::full([4], -1.0, &device).unwrap()).collect();
        let outputs = routine
            .run(&[&x], |inputs: &[Tensor]| -> Result<Vec<Tensor>> {
                Ok(vec![inputs[0].add(&weight)?])
            })
            .unwrap();
        assert_eq!(outputs[0].to_vec().unwrap(), [1.0 + (call / 3 * 3) as f32; 4]);
        assert_eq!(routine.is_recorded(), call > 0, "call {call}");
        drop(others);
    }
}

#[test]
fn a_recording_is_replayed_with_the_weights_it_was_made_with_and_no_others() {
    for precision in [Precision::F32, Precision::Bf16, Precision::Fp8] {
        let Some(device) = gpu(precision) else { return };
        let tensor = |seed: usize, shape: &[usize]| {
            Tensor::from_vec(values(shape.iter().product(), seed), shape, &device).unwrap()
        };
        // The first two live on, as where a snapshot keeps the one that a step replaced; the others end with their calls.
        let mut weights = vec![tensor(0, &[32, 16]), tensor(1, &[32, 16])];
        let (routine, x) = (Routine::after(2), tensor(9, &[5, 16]));
        let calls = [0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3];
        for (call, which) in calls.into_iter().enumerate() {
            if which > 1 && calls[call - 1] != which {
                weights.truncate(2);
                weights.push(tensor(which, &[32, 16]));
            }
            let weight = &weights[which.min(2)];
            let compute = |x: &[Tensor]| -> Result<Vec<Tensor>> {
                Ok(vec![x[0].compact()?.layer(weight, None, None)?])
            };
            let given = routine.run_with(&[&x], [weight], compute).unwrap();
            let expected = compute(std::slice::from_ref(&x)).unwrap()[0].to_vec().unwrap();
            assert_eq!(given[0].to_vec().unwrap(), expected, "call {call} in {precision}");
            let is_recorded = matches!(call, 2 | 3 | 7 | 10 | 13 | 16 | 17);
            assert_eq!(routine.is_recorded(), is_recorded, "call {call} in {precision}");
        }
    }
}

#[test]
fn a_routine_inside_a_recording_is_part_of_it_and_recorded_by_itself_later() {
    let Some(device) = gpu(Precision::F32) else { return };
    let x = Tensor::from_vec(values(64, 1), [8, 8], &device).unwrap();
    let (outer, inner) = (Routine::default(), Routine::default());
    let scaled = |given: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![given[0].scale(2.0)?]) };
    let nested = |given: &[Tensor]| inner.run(&[&given[0]], scaled);
    let expected = scaled(std::slice::from_ref(&x)).unwrap()[0].to_vec().unwrap();
    for _ in 0..4 {
        assert_eq!(outer.run(&[&x], nested).unwrap()[0].to_vec().unwrap(), expected);
    }
    assert!(outer.is_recorded() && !inner.is_recorded());
    for _ in 0..2 {
        assert_eq!(inner.run(&[&x], scaled).unwrap()[0].to_vec().unwrap(), expected);
    }
    assert!(inner.is_recorded());
}
