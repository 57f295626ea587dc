//! Layers with 8-bit floats, against factors that the test itself rounds.

use paint_tensor::{Device, Precision, Result, Tensor};

use crate::agreement::gap;
use crate::cases::{mlp, values};
use crate::device::gpu;

/// Rows, input, hidden and output channels.
const SIZES: [usize; 4] = [201, 192, 768, 192];
/// Ten units of 2^-9, to which a result is rounded. Factors are rounded to 2^-4: the product of factors that were not
/// rounded differs by more.
const NEAR: f32 = 2e-2;

/// The nearest number with three bits of fraction, no smaller unit than 2^-9 and at most 448.
fn e4m3(x: f32) -> f32 {
    let exponent = (((x.to_bits() >> 23) & 0xff) as i32 - 127).max(-6);
    let step = 2.0_f32.powi(exponent - 3);
    ((x / step).round_ties_even() * step).clamp(-448.0, 448.0)
}

fn input(x: &[f32]) -> Vec<f32> {
    x.iter().copied().map(e4m3).collect()
}

fn weight(w: &[f32]) -> Vec<f32> {
    let unit = w.iter().fold(0.0_f32, |most, w| most.max(w.abs())) / 448.0;
    w.iter().map(|w| unit * e4m3(w / unit)).collect()
}

/// Input, weights and biases of an MLP, and its residual.
fn given(device: &Device, [m, i, h, o]: [usize; 4], tracked: Option<usize>) -> Result<Vec<Tensor>> {
    let shapes: [&[usize]; 6] = [&[m, i], &[h, i], &[h], &[o, h], &[o], &[m, o]];
    let tensor = |(at, shape): (usize, &&[usize])| {
        let x = Tensor::from_vec(values(shape.iter().product(), at), *shape, device)?;
        let x = if matches!(at, 0 | 5) { x.compact()? } else { x };
        Ok(if tracked == Some(at) { x.variable() } else { x })
    };
    shapes.iter().enumerate().map(tensor).collect()
}

fn layer(x: &[Tensor]) -> Result<Tensor> {
    x[0].layer(&x[1], Some(&x[2]), None)
}

fn both_layers(x: &[Tensor]) -> Result<Tensor> {
    x[0].mlp(mlp(x), Some(&x[5]))
}

fn bits(y: Result<Tensor>) -> Vec<f32> {
    y.and_then(|y| y.to_vec()).expect("sizes are right")
}

#[test]
fn layers_have_the_values_of_rounded_factors() {
    let Some(device) = gpu(Precision::Fp8) else { return };
    let (x, cpu) = (given(&device, SIZES, None).unwrap(), Device::cpu());
    let on_cpu = |x: &Tensor, round: fn(&[f32]) -> Vec<f32>| {
        Tensor::from_vec(round(&x.to_vec().unwrap()), x.shape(), &cpu).unwrap()
    };
    let same: fn(&[f32]) -> Vec<f32> = <[f32]>::to_vec;
    let expected = |input: fn(&[f32]) -> Vec<f32>, weight: fn(&[f32]) -> Vec<f32>| {
        let [w1, w2] = [1, 3].map(|at| on_cpu(&x[at], weight));
        let [b1, b2, residual] = [2, 4, 5].map(|at| on_cpu(&x[at], same));
        let first = on_cpu(&x[0], input).linear(&w1, Some(&b1)).unwrap();
        let hidden = on_cpu(&first.gelu().unwrap(), input);
        let second = hidden.linear_residual(&w2, Some(&b2), &residual).unwrap();
        [first, second].map(|y| y.to_vec().unwrap())
    };
    // Twice: the second time the rounded weights are there.
    for _ in 0..2 {
        let found = [bits(layer(&x)), bits(both_layers(&x))];
        let (rounded, exact) = (expected(input, weight), expected(same, same));
        for (part, found) in found.iter().enumerate() {
            let [near, far] = [gap(found, &rounded[part]), gap(found, &exact[part])];
            assert!(near < NEAR && far > NEAR, "layer {part}: {near} {far}");
        }
    }
}

#[test]
fn one_row_and_parts_that_begin_anywhere_are_layers_too() {
    let Some(device) = gpu(Precision::Fp8) else { return };
    let x = given(&device, SIZES, None).unwrap();
    let [_, width, outputs, _] = SIZES;
    let whole = bits(layer(&x));
    let row = x[0].slice(0, 7, 1).unwrap();
    let near = gap(&bits(row.layer(&x[1], Some(&x[2]), None)), &whole[7 * outputs..][..outputs]);
    assert!(near < NEAR, "{near}");
    let plain = x[0].layer(&x[1], None, None).unwrap();
    let near = gap(&bits(plain.add(&x[2])), &whole);
    assert!(near < NEAR, "{near}");
    // A bias at an odd place of its block.
    let longer = Tensor::from_vec(values(outputs + 3, 2), [outputs + 3], &device).unwrap();
    let odd = longer.slice(0, 3, outputs).unwrap();
    let even = Tensor::from_vec(odd.to_vec().unwrap(), [outputs], &device).unwrap();
    assert_eq!(
        bits(x[0].layer(&x[1], Some(&odd), None)),
        bits(x[0].layer(&x[1], Some(&even), None))
    );
    // A weight at an odd place is not rounded.
    let numbers = values(outputs * width + 8, 1);
    let longer = Tensor::from_vec(numbers, [outputs * width + 8], &device).unwrap();
    let odd = longer.slice(0, 8, outputs * width).unwrap().reshape([outputs, width]).unwrap();
    let linear = x[0].linear(&odd, Some(&x[2]));
    assert_eq!(bits(x[0].layer(&odd, Some(&x[2]), None)), bits(linear));
}

#[test]
fn nothing_is_rounded_where_a_gradient_passes_or_sizes_do_not_suit() {
    let (Some(fp8), Some(bf16)) = (gpu(Precision::Fp8), gpu(Precision::Bf16)) else { return };
    let both = |sizes, tracked| [&fp8, &bf16].map(|device| given(device, sizes, tracked).unwrap());
    for tracked in 0..6 {
        let [x, y] = both(SIZES, Some(tracked));
        assert_eq!(bits(both_layers(&x)), bits(both_layers(&y)), "{tracked}");
        if tracked <= 2 {
            assert_eq!(bits(layer(&x)), bits(layer(&y)), "{tracked}");
        }
    }
    let [x, y] = both([37, 30, 90, 30], None);
    assert_eq!(bits(both_layers(&x)), bits(both_layers(&y)));
    let [x, y] = both(SIZES, None);
    let classifier = |x: &[Tensor]| x[0].linear(&x[1], Some(&x[2]));
    assert_eq!(bits(classifier(&x)), bits(classifier(&y)));
}

#[test]
fn infinity_shows_in_its_row_and_a_weight_of_zeros_gives_the_bias() {
    let Some(device) = gpu(Precision::Fp8) else { return };
    let mut x = given(&device, SIZES, None).unwrap();
    let [m, width, outputs, _] = SIZES;
    let finite = bits(layer(&x));
    let mut numbers = x[0].to_vec().unwrap();
    numbers[5 * width + 7] = f32::INFINITY;
    x[0] = Tensor::from_vec(numbers, [m, width], &device).unwrap().compact().unwrap();
    let found = bits(layer(&x));
    for (row, (found, finite)) in found.chunks(outputs).zip(finite.chunks(outputs)).enumerate() {
        if row == 5 {
            assert!(found.iter().all(|y| y.is_nan()));
        } else {
            assert_eq!(found, finite, "row {row}");
        }
    }
    x[1] = Tensor::zeros([outputs, width], &device).unwrap();
    let biases = x[2].compact().unwrap().to_vec().unwrap();
    assert_eq!(bits(layer(&x))[..outputs], biases[..]);
}
