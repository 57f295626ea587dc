//! GPUs against the CPU: every operation, and sizes that use every path of the kernels.

mod fp8;
mod lane;
mod large;
mod routine;

use paint_tensor::{Alignment, Device, Error, Noise, Precision, Result, Tensor, in_lane};

use self::large::{LARGE, LARGEST};
use crate::agreement::{agree, gap, results};
use crate::cases::{CASES, Case, look, values};
use crate::device::gpu;

/// How far an element may be from the CPU's: this part of its own size plus that of its tensor (root mean square).
///
/// In f32 both sides sum in different orders, which costs √n units of 2^-24 for n terms, at most 1e-5 here. The rest
/// is for attention, whose exponential turns the error of a score into a relative one. Rows that amplify rounding
/// further say by how much ([`Case::sensitivity`]).
const F32: f32 = 1e-4;
/// Ten units of 2^-11, to which tf32 rounds both factors of a product: the error of a sum of such products is normally
/// distributed around one unit, the largest of 10^5 elements is at five of them, and a gradient is two products.
const TF32: f32 = 5e-3;
/// The same with 2^-9 and the results of every step rounded too: 25 units.
const BF16: f32 = 5e-2;

fn compare(cases: &[Case], precision: Precision, tolerance: f32) -> Result<()> {
    let Some(device) = gpu(precision) else { return Ok(()) };
    agree(cases, &device, &format!("GPU in {precision}"), tolerance)
}

#[test]
fn every_operation_agrees_with_the_cpu_in_f32() {
    compare(CASES, Precision::F32, F32).unwrap();
}

#[test]
fn large_operations_agree_with_the_cpu_in_f32() {
    compare(LARGE, Precision::F32, F32).unwrap();
}

#[test]
fn every_operation_agrees_with_the_cpu_in_tf32() {
    compare(CASES, Precision::Tf32, TF32).unwrap();
    compare(LARGE, Precision::Tf32, TF32).unwrap();
    compare(LARGEST, Precision::Tf32, TF32).unwrap();
}

#[test]
fn every_operation_agrees_with_the_cpu_in_bf16() {
    // Without `compact` everything is stored in f32, and products are those of tf32.
    compare(CASES, Precision::Bf16, TF32).unwrap();
    compare(LARGE, Precision::Bf16, BF16).unwrap();
}

#[test]
fn every_operation_with_a_gradient_agrees_with_the_cpu_in_fp8() {
    compare(CASES, Precision::Fp8, TF32).unwrap();
    compare(LARGE, Precision::Fp8, BF16).unwrap();
}

#[test]
fn augmented_looks_restored_and_averaged_elements_agree_with_the_cpu() {
    let looks: Vec<_> = (0..5).map(look).collect();
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
        assert!(gap < F32, "{gap}");
    }
}

/// Untracked, as methods have them: a GPU has kernels for that, and writes over tokens that nobody else holds.
#[test]
fn tokens_agree_with_the_cpu() {
    let found = |device: &Device, first: usize| {
        let tensor = |seed, shape: [usize; 3]| {
            let data = values(shape.iter().product(), seed);
            Tensor::from_vec(data, shape, device).unwrap().scale(2.0).unwrap().compact().unwrap()
        };
        // More channels and more tokens than a block has columns and lanes.
        let (own, shared) = (tensor(1, [3, 37, 70]), tensor(2, [3, 37, 70]));
        let [mean, variance] = own.token_moments(first).unwrap();
        let (part, kept) = (tensor(3, [3, first + 1, 70]), shared.to_vec().unwrap());
        let exchanged = shared.clone().with_first_tokens(&part).unwrap();
        assert_eq!(shared.to_vec().unwrap(), kept, "tokens that are held twice stay");
        let written = own.with_first_tokens(&part).unwrap();
        [mean, variance, exchanged, written].map(|part| part.to_vec().unwrap())
    };
    for (precision, tolerance) in [(Precision::F32, F32), (Precision::Bf16, BF16)] {
        let Some(device) = gpu(precision) else { return };
        for first in [0, 5] {
            let both = found(&device, first).into_iter().zip(found(&Device::cpu(), first));
            for (part, (ours, reference)) in both.enumerate() {
                let gap = gap(&ours, &reference);
                assert!(gap < tolerance, "part {part} from {first} in {precision}: {gap}");
            }
        }
    }
}

#[test]
fn aligned_rows_agree_with_the_cpu() {
    let aligned = |device: &Device, d: usize, known: bool| {
        let tensor = |seed, shape: &[usize]| {
            Tensor::from_vec(values(shape.iter().product(), seed), shape, device).unwrap()
        };
        let rows = tensor(1, &[37, 1, d]).compact().unwrap();
        let moments = |mean: f32, square: f32| {
            let mean = Tensor::full([1, d], mean, device).unwrap();
            Tensor::concat(&[&mean, &Tensor::full([1, d], square, device).unwrap()], 0).unwrap()
        };
        let by = Alignment {
            share: 0.3,
            rows: 90.0,
            target_rows: 300.0,
            shrinkage: 20.0,
            stretch: 10.0,
        };
        let running = moments(0.2, 0.7).add(&tensor(2, &[2, d]).scale(0.01).unwrap()).unwrap();
        let found = rows.aligned(known.then_some(&running), &moments(1.5, 0.4), &by).unwrap();
        [found.rows, found.running, found.weight].map(|part| part.to_vec().unwrap())
    };
    for (precision, tolerance) in [(Precision::F32, F32), (Precision::Bf16, BF16)] {
        let Some(device) = gpu(precision) else { return };
        // More channels than the block has threads, and fewer.
        for (d, known) in [(1500, true), (1500, false), (48, true)] {
            let both =
                aligned(&device, d, known).into_iter().zip(aligned(&Device::cpu(), d, known));
            for (part, (ours, reference)) in both.enumerate() {
                let gap = gap(&ours, &reference);
                assert!(gap < tolerance, "part {part} of {d} in {precision}: {gap}");
            }
        }
    }
}

/// Like `nan.rs`, for kernels that only large sizes reach: whatever has a NaN on the CPU has one on a GPU.
fn pass_nan(cases: &[Case], precision: Precision) -> Result<()> {
    let Some(device) = gpu(precision) else { return Ok(()) };
    for case in cases {
        for (i, shape) in case.shapes.iter().enumerate() {
            let len: usize = shape.iter().product();
            for j in [0, len / 2, len - 1] {
                let mut data = case.data();
                data[i][j] = f32::NAN;
                let (ours, reference) =
                    (results(case, &data, &device)?, results(case, &data, &Device::cpu())?);
                for (part, both) in ours.iter().zip(&reference).enumerate() {
                    let [ours, expected] = [both.0, both.1].map(|x| x.iter().any(|x| x.is_nan()));
                    assert!(
                        ours || !expected,
                        "{} in {precision}, input {i} element {j}: lost in part {part}",
                        case.name
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_nan_passes_every_path_of_the_kernels() {
    for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
        pass_nan(LARGE, precision).unwrap();
    }
    pass_nan(LARGEST, Precision::Tf32).unwrap();
}

#[test]
fn an_exponential_is_finite_as_on_the_cpu() {
    let Some(device) = gpu(Precision::F32) else { return };
    let on = |device: &Device| {
        let x = vec![88.0, 88.3, 88.4, 89.0, 1e4, f32::INFINITY, -200.0, f32::NAN];
        Tensor::from_vec(x, [8], device).unwrap().exp().unwrap().to_vec().unwrap()
    };
    for (ours, reference) in on(&device).into_iter().zip(on(&Device::cpu())) {
        assert_eq!(ours.is_finite(), reference.is_finite(), "{ours} and {reference}");
        // 1e-6: both are good to 2e-7.
        assert!(
            ours.is_nan() || (ours - reference).abs() <= 1e-6 * reference,
            "{ours} {reference}"
        );
    }
}

#[test]
fn memory_stays_flat_while_sizes_change() {
    // Memory of its own, beside that of the tests that run at the same time.
    let Some(device) = in_lane(9, || gpu(Precision::F32)) else { return };
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
