//! GPUs against the processor: every operation, and sizes that use every path of the kernels.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use paint_tensor::{ColorOp, Device, Distortion, Error, Noise, Precision, Result, Routine, Tensor};

use crate::cases::{CASES, Case, mlp, projected, values};

/// The first GPU in a precision, or a message on a machine that has none.
fn gpu(precision: Precision) -> Option<Device> {
    match Device::open("cuda:0", precision) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Output, then the gradient of each input, of a case on a device.
fn results(case: &Case, device: &Device) -> Result<Vec<Vec<f32>>> {
    let inputs: Vec<Tensor> = (case.shapes.iter().enumerate())
        .map(|(i, shape)| {
            let data = values(shape.iter().product(), i).iter().map(|x| x + case.offset).collect();
            Ok(Tensor::from_vec(data, shape, device)?.variable())
        })
        .collect::<Result<_>>()?;
    let out = (case.run)(&inputs)?.to_vec()?;
    let gradients = projected(case, &inputs)?.backward()?;
    let gradients = inputs.iter().map(|x| gradients.get(x).expect("every input is used").to_vec());
    std::iter::once(Ok(out)).chain(gradients).collect()
}

/// The largest `|a - b|` relative to the largest `|b|`.
fn gap(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let top = b.iter().fold(1e-6, |top: f32, x| top.max(x.abs()));
    let difference = |(a, b): (&f32, &f32)| if a.is_nan() { f32::INFINITY } else { (a - b).abs() };
    a.iter().zip(b).map(difference).fold(0.0, f32::max) / top
}

fn compare(cases: &[Case], precision: Precision, tolerance: f32) -> Result<()> {
    let Some(device) = gpu(precision) else { return Ok(()) };
    let mut failures = Vec::new();
    for case in cases {
        let (ours, reference) = (results(case, &device)?, results(case, &Device::cpu())?);
        for (i, (a, b)) in ours.iter().zip(&reference).enumerate() {
            let gap = gap(a, b);
            if gap.is_nan() || gap > tolerance {
                let part = if i == 0 { "output".into() } else { format!("gradient {}", i - 1) };
                failures.push(format!("{}, {part}: {gap:.1e}", case.name));
            }
        }
        assert_eq!(ours, results(case, &device)?, "{} gives other bits the second time", case.name);
    }
    assert!(failures.is_empty(), "{precision}, tolerance {tolerance}: {failures:#?}");
    Ok(())
}

/// `compact` on every input, as a transformer sees them.
fn compact(x: &[Tensor]) -> Result<Vec<Tensor>> {
    x.iter().map(Tensor::compact).collect()
}

const fn case(
    name: &'static str,
    shapes: &'static [&'static [usize]],
    run: fn(&[Tensor]) -> Result<Tensor>,
) -> Case {
    Case { name, shapes, offset: 0.0, run }
}

/// What a transformer does, at sizes with whole and broken tiles.
const LARGE: &[Case] = &[
    case("linear of tokens", &[&[3, 67, 192], &[576, 192], &[576]], |x| {
        compact(x)?[0].linear(&x[1], Some(&x[2]))
    }),
    case("linear without multiples of 8", &[&[37, 30], &[10, 30], &[10]], |x| {
        compact(x)?[0].linear(&x[1], Some(&x[2]))
    }),
    case("mlp of tokens", &[&[2, 65, 192], &[768, 192], &[768], &[192, 768], &[192]], |x| {
        let narrow = compact(x)?;
        narrow[0].mlp(mlp(x), Some(&narrow[0]))
    }),
    case("mlp without multiples of 8", &[&[37, 30], &[90, 30], &[90], &[30, 90], &[30]], |x| {
        compact(x)?[0].mlp(mlp(x), None)
    }),
    case("linear_residual of tokens", &[&[2, 65, 64], &[192, 64], &[192], &[2, 65, 192]], |x| {
        let narrow = compact(x)?;
        narrow[0].linear_residual(&x[1], Some(&x[2]), &narrow[3])
    }),
    case("layer_norm of 192", &[&[131, 192], &[192], &[192]], |x| {
        compact(x)?[0].layer_norm(&x[1], &x[2], 1e-6)
    }),
    case("layer_norm of 768", &[&[70, 768], &[768], &[768]], |x| {
        compact(x)?[0].layer_norm(&x[1], &x[2], 1e-6)
    }),
    case("layer_norm of 192 beside a residual", &[&[131, 192], &[192], &[192]], |x| {
        let narrow = compact(x)?;
        narrow[0].layer_norm(&x[1], &x[2], 1e-6)?.add(&narrow[0])
    }),
    case("layer_norm of 1030 beside a residual", &[&[3, 1030], &[1030], &[1030]], |x| {
        let narrow = compact(x)?;
        narrow[0].layer_norm(&x[1], &x[2], 1e-6)?.add(&narrow[0])
    }),
    case("layer_norm of 64 by parts of others", &[&[9, 64], &[65], &[67]], |x| {
        compact(x)?[0].layer_norm(&x[1].slice(0, 1, 64)?, &x[2].slice(0, 3, 64)?, 1e-6)
    }),
    case("sum of many", &[&[40, 1024]], |x| x[0].sum_all()),
    case("layer_norm of 1030", &[&[300, 1030], &[1030], &[1030]], |x| {
        compact(x)?[0].layer_norm(&x[1], &x[2], 1e-6)
    }),
    case("attention, head 64", &[&[2, 199, 576]], |x| compact(x)?[0].attention(3)),
    case("attention, head 64, few tokens", &[&[2, 7, 192]], |x| compact(x)?[0].attention(1)),
    case("attention, head 64, 41 tokens", &[&[2, 41, 192]], |x| compact(x)?[0].attention(1)),
    case("attention, head 64, 64 tokens", &[&[2, 64, 192]], |x| compact(x)?[0].attention(1)),
    case("attention, head 64, 66 tokens", &[&[3, 66, 576]], |x| compact(x)?[0].attention(3)),
    case("attention, head 64, 165 tokens", &[&[1, 165, 384]], |x| compact(x)?[0].attention(2)),
    case("attention, head 64, as many tokens as fit at once", &[&[1, 224, 384]], |x| {
        compact(x)?[0].attention(2)
    }),
    case("attention, head 64, one token more", &[&[1, 225, 384]], |x| compact(x)?[0].attention(2)),
    case(
        "attention, all scores far below zero",
        &[&[2, 66, 63], &[2, 66, 63], &[2, 66, 64]],
        |x| {
            // One channel, exact in every precision, takes 128 off each score.
            let far = |value| Tensor::full([2, 66, 1], value, x[0].device());
            let rows = [&far(256.0)?, &x[0], &far(-4.0)?, &x[1], &x[2]];
            compact(&[Tensor::concat(&rows, 2)?])?[0].attention(1)
        },
    ),
    case(
        "attention, values and their gradients far from one",
        &[&[2, 66, 128], &[2, 66, 64]],
        |x| {
            let far = 2.0_f32.powi(40);
            let rows = compact(&[Tensor::concat(&[&x[0], &x[1].scale(1.0 / far)?], 2)?])?;
            rows[0].attention(1)?.scale(far)
        },
    ),
    case("attention of nothing but zeros", &[&[2, 66, 192]], |x| {
        compact(&[x[0].scale(0.0)?])?[0].attention(1)
    }),
    case("attention whose gradient is zero", &[&[2, 66, 192]], |x| {
        compact(x)?[0].attention(1)?.scale(0.0)
    }),
    case("cross_attention of as many", &[&[2, 66, 128], &[2, 66, 256]], |x| {
        let x = compact(x)?;
        x[0].cross_attention(&x[1], 2)
    }),
    case("attention, head 32", &[&[2, 65, 192]], |x| compact(x)?[0].attention(2)),
    case("attention, head 12", &[&[2, 70, 72]], |x| compact(x)?[0].attention(2)),
    case("attention, head 128", &[&[1, 66, 384]], |x| compact(x)?[0].attention(1)),
    case("attention with large scores", &[&[2, 130, 192]], |x| {
        compact(&[x[0].scale(6.0)?])?[0].attention(1)
    }),
    case("cross_attention, head 64", &[&[3, 3, 128], &[3, 199, 256]], |x| {
        let x = compact(x)?;
        x[0].cross_attention(&x[1], 2)
    }),
    case("add_scaled of tokens", &[&[3, 65, 192], &[3, 65, 192]], |x| {
        let (factors, x) =
            (Tensor::from_vec(vec![1.1, 0.0, 1.1], [3], x[0].device())?, compact(x)?);
        x[0].add_scaled(&x[1], &factors)
    }),
    case("slices and joins of tokens", &[&[3, 9, 16], &[3, 2, 16]], |x| {
        let x = compact(x)?;
        Tensor::concat(&[&x[1], &x[0].slice(1, 0, 4)?], 1)
    }),
    case("sums over many rows", &[&[3, 700, 40]], |x| compact(x)?[0].sum(1)),
    case("sums over long rows", &[&[5, 3000]], |x| compact(x)?[0].sum(1)),
    case("products of elements", &[&[5, 33], &[5, 33]], |x| {
        let x = compact(x)?;
        x[0].mul(&x[1])
    }),
];

#[test]
fn every_operation_agrees_with_the_processor_in_f32() {
    compare(CASES, Precision::F32, 1e-4).unwrap();
}

#[test]
fn large_operations_agree_with_the_processor_in_f32() {
    compare(LARGE, Precision::F32, 1e-4).unwrap();
}

#[test]
fn every_operation_agrees_with_the_processor_in_tf32() {
    compare(CASES, Precision::Tf32, 5e-3).unwrap();
    compare(LARGE, Precision::Tf32, 5e-3).unwrap();
}

#[test]
fn every_operation_agrees_with_the_processor_in_bf16() {
    compare(CASES, Precision::Bf16, 5e-3).unwrap();
    compare(LARGE, Precision::Bf16, 5e-2).unwrap();
}

#[test]
fn augmented_looks_restored_and_averaged_elements_agree_with_the_processor() {
    let look = |i: usize| {
        let mut colors = ColorOp::ALL.map(|op| (op, 1.0 + 0.1 * (i + op as usize) as f32));
        colors[ColorOp::Hue as usize].1 = 0.04;
        colors.rotate_left(i);
        Distortion {
            colors,
            pad: if i.is_multiple_of(2) { [10, 6] } else { [0, 0] },
            matrix: [0.95, 0.2, -3.5, -0.2, 0.95, 4.25],
            blur: [0.01, 0.15, 0.68, 0.15, 0.01],
            flip: i.is_multiple_of(3),
            seed: 0x1234_5678_9abc_def0 + i as u64,
        }
    };
    let looks: Vec<Distortion> = (0..5).map(look).collect();
    let given = values(5 * 2 * 3 * 20 * 13, 4);
    let on = |device: &Device| {
        let pixels = values(2 * 3 * 20 * 13, 3).iter().map(|x| 0.5 + 0.6 * x).collect();
        let images = Tensor::from_vec(pixels, [2, 3, 20, 13], device).unwrap();
        let restored = images.restore(&images.scale(3.0).unwrap(), &[0, 7, 8, 1559]).unwrap();
        let results = [
            images.distort(&looks, Noise::Normal(0.05)).unwrap(),
            images.distort(&looks, Noise::Given(&given)).unwrap(),
            images.lerp(&restored, 0.3).unwrap(),
            restored,
        ];
        results.map(|result| result.to_vec().unwrap())
    };
    let Some(device) = gpu(Precision::F32) else { return };
    for (ours, reference) in on(&device).iter().zip(on(&Device::cpu())) {
        let gap = gap(ours, &reference);
        assert!(gap < 1e-4, "{gap}");
    }
}

#[test]
fn memory_stays_flat_while_sizes_change() {
    let Some(device) = gpu(Precision::F32) else { return };
    let step = |n: usize| {
        let x = Tensor::full([n, 65, 192], 0.5, &device).unwrap().variable();
        let w = Tensor::full([576, 192], 0.01, &device).unwrap().variable();
        let loss = x.linear(&w, None).unwrap().attention(3).unwrap().sum_all().unwrap();
        loss.backward().unwrap();
    };
    let sizes = || (0..120).for_each(|i| step(1 + i * 37 % 59));
    sizes();
    let before = device.memory().unwrap().reserved;
    (0..3).for_each(|_| sizes());
    assert_eq!(device.memory().unwrap().reserved, before);
}

#[test]
fn a_tensor_larger_than_the_gpu_is_refused() {
    let Some(device) = gpu(Precision::F32) else { return };
    let error = Tensor::zeros([1 << 20, 1 << 20], &device).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!(Tensor::full([3], 2.0, &device).unwrap().to_vec().unwrap(), [2.0; 3]);
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    for name in ["cuda:99", "cuda:x", "cudaa"] {
        let message = Device::from_name(name).unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
    }
}

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
