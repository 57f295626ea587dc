//! Kernels against their readable twins.

use super::*;

fn values(len: usize, phase: f32) -> Vec<f32> {
    (0..len).map(|i| (i as f32 * 0.37 + phase).sin()).collect()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance, "element {i}: {found} against {expected}");
    }
}

#[test]
fn layer_norm_agrees_with_its_twin() {
    for d in [1, 7, 16, 192, 769] {
        let (x, gamma, beta) = (values(5 * d, 0.1), values(d, 0.2), values(d, 0.3));
        let (mut out, mut stats) = (vec![0.0; 5 * d], vec![0.0; 10]);
        rowwise::layer_norm(&x, &gamma, &beta, 1e-6, &mut out, &mut stats);
        // 1e-4: for one column x - mean is a rounding error, divided by sqrt(eps).
        assert_close(&out, &reference::layer_norm(&x, &gamma, &beta, 1e-6), 1e-4);
    }
}

#[test]
fn softmax_agrees_with_its_twin() {
    for d in [1, 10, 67, 1000] {
        let x: Vec<f32> = values(3 * d, 0.5).iter().map(|x| x * 8.0).collect();
        let mut out = vec![0.0; 3 * d];
        rowwise::softmax(&x, d, &mut out);
        // 1e-6: probabilities below one, of an exponential good to 2e-7 and a sum of up to 1000 of them.
        assert_close(&out, &reference::softmax(&x, d), 1e-6);
    }
}

#[test]
fn attention_agrees_with_its_twin_on_every_kernel() {
    let (images, m, n, heads, head_dim) = (3, 5, 19, 2, 24);
    let d = heads * head_dim;
    let (q, kv) = (values(images * m * d, 0.0), values(images * n * 2 * d, 1.0));
    for kernel in Kernel::all() {
        let problem = attention::Problem {
            kernel,
            heads,
            head_dim,
            scale: 0.3,
            q: attention::Rows { data: &q, start: 0, row: d, len: m },
            k: attention::Rows { data: &kv, start: 0, row: 2 * d, len: n },
            v: attention::Rows { data: &kv, start: d, row: 2 * d, len: n },
        };
        let (mut out, mut lse) = (vec![0.0; images * m * d], vec![0.0; images * heads * m]);
        problem.forward(&mut out, &mut lse);
        for image in 0..images {
            // 1e-5: means of 19 numbers below one, whose twins sum 24 products per score in f32 in another order.
            assert_close(
                &out[image * m * d..][..m * d],
                &reference::attention(&problem, image),
                1e-5,
            );
        }
    }
}
