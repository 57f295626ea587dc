//! Convolutions against their readable twin, at sizes with several blocks of channels, images and positions.

use pulp::WithSimd as _;

use super::tile::MAX_WIDTH;
use super::*;

fn values(len: usize, phase: f32) -> Vec<f32> {
    (0..len).map(|i| (i as f32 * 0.37 + phase).sin()).collect()
}

fn geometry(batch: usize, stride: usize, groups: usize) -> Conv {
    let (padding, input, kernel) = (1, [9, 14], [3, 2]);
    let output = [0, 1].map(|i| (input[i] + 2 * padding - kernel[i]) / stride + 1);
    Conv { batch, inputs: 6, outputs: 22, groups, input, kernel, stride, padding, output }
}

/// Calls `f(output, input, weight)` with the indices of every product of the sum.
fn each_product(conv: &Conv, mut f: impl FnMut(usize, usize, usize)) {
    let Conv { inputs, outputs, groups, input: [h, w], kernel: [kh, kw], .. } = *conv;
    let [oh, ow] = conv.output;
    let depth = inputs / groups;
    for at in 0..conv.batch * outputs * oh * ow {
        let (image, o, oy, ox) =
            (at / (outputs * oh * ow), at / (oh * ow) % outputs, at / ow % oh, at % ow);
        for k in 0..depth * kh * kw {
            let (c, ky, kx) = (k / (kh * kw), k / kw % kh, k % kw);
            let (y, x) = (oy * conv.stride + ky, ox * conv.stride + kx);
            if (conv.padding..h + conv.padding).contains(&y)
                && (conv.padding..w + conv.padding).contains(&x)
            {
                let channel = o / (outputs / groups) * depth + c;
                let row = (image * inputs + channel) * h + y - conv.padding;
                f(at, row * w + x - conv.padding, o * depth * kh * kw + k);
            }
        }
    }
}

fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        // 1e-4: sums of up to 700 products of numbers up to one.
        assert!((f64::from(*found) - expected).abs() < 1e-4, "{what} {i}: {found}, {expected}");
    }
}

#[test]
fn convolutions_and_gradients_agree_with_their_twin() {
    for (batch, stride, groups) in [(1, 1, 1), (7, 1, 1), (9, 2, 2), (5, 3, 1)] {
        let conv = geometry(batch, stride, groups);
        let x = values(batch * conv.inputs * 9 * 14, 0.1);
        let weight = values(conv.outputs * conv.depth(), 0.2);
        let grad = values(batch * conv.outputs * conv.output_len(), 0.3);
        let mut out = vec![f32::NAN; grad.len()];
        let (mut dx, mut dw) = (vec![f32::NAN; x.len()], vec![f32::NAN; weight.len()]);
        forward(&conv, &x, &weight, &mut out);
        backward_input(&conv, &weight, &grad, &mut dx);
        backward_weight(&conv, &x, &grad, &mut dw);
        let mut twins = [vec![0.0; out.len()], vec![0.0; x.len()], vec![0.0; weight.len()]];
        each_product(&conv, |o, i, w| {
            let [x, weight, grad] = [x[i], weight[w], grad[o]].map(f64::from);
            twins[0][o] += x * weight;
            twins[1][i] += grad * weight;
            twins[2][w] += grad * x;
        });
        assert_close(&out, &twins[0], "output");
        assert_close(&dx, &twins[1], "input's gradient");
        assert_close(&dw, &twins[2], "weight's gradient");
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let conv = geometry(11, 1, 1);
    let x = values(conv.batch * conv.inputs * 9 * 14, 0.1);
    let weight = values(conv.outputs * conv.depth(), 0.2);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut out = vec![0.0; conv.batch * conv.outputs * conv.output_len()];
        let mut dw = vec![0.0; weight.len()];
        pool.install(|| {
            forward(&conv, &x, &weight, &mut out);
            backward_weight(&conv, &x, &out, &mut dw);
        });
        (out, dw)
    };
    assert_eq!(run(1), run(16));
}

#[test]
fn a_cpu_with_few_registers_gets_the_same_product() {
    let (offsets, width) = ([0, 5, 17], MAX_WIDTH);
    let (weights, planes) = (values(2 * 3 * ROWS, 0.1), values(17 + width, 0.2));
    let run = |scalar: bool| {
        let mut rows = vec![f32::NAN; 2 * ROWS * width];
        let product = tile::Multiply {
            offsets: &offsets,
            weights: &weights,
            planes: &planes,
            rows: &mut rows,
            width,
        };
        if scalar {
            product.with_simd(pulp::Scalar);
        } else {
            pulp::Arch::new().dispatch(product);
        }
        rows
    };
    let vectors: Vec<f64> = run(false).into_iter().map(f64::from).collect();
    assert_close(&run(true), &vectors, "row");
}
