//! Numbers by hand and gradients by finite differences for every loss.

use paint_rng::Seed;
use paint_tensor::{Device, Tensor};

use super::*;

fn tensor(data: &[f32], shape: [usize; 2]) -> Tensor {
    Tensor::from_vec(data.to_vec(), shape, &Device::cpu()).unwrap()
}

fn logits(b: usize, c: usize) -> Vec<f32> {
    let mut rng = Seed(11).derive("loss/logits", &[]);
    (0..b * c).map(|_| 1.5 * rng.normal() as f32).collect()
}

fn softmax(row: &[f32]) -> Vec<f64> {
    let exp: Vec<f64> = row.iter().map(|&z| f64::from(z).exp()).collect();
    exp.iter().map(|e| e / exp.iter().sum::<f64>()).collect()
}

fn close(got: f32, expected: f64, tolerance: f64) {
    assert!((f64::from(got) - expected).abs() <= tolerance, "got {got}, expected {expected}");
}

/// Central differences against the tape, for a scalar loss of one `[b, c]` input.
fn agrees_with_finite_differences(b: usize, c: usize, loss: impl Fn(&Tensor) -> Tensor) {
    let data = logits(b, c);
    let z = tensor(&data, [b, c]).variable();
    let gradients = loss(&z).backward().unwrap();
    let gradient = gradients.get(&z).unwrap().to_vec().unwrap();
    let h = 1e-2;
    for i in 0..data.len() {
        let at = |shift: f32| {
            let mut moved = data.clone();
            moved[i] += shift;
            f64::from(loss(&tensor(&moved, [b, c])).item().unwrap())
        };
        let numeric = (at(h) - at(-h)) / f64::from(2.0 * h);
        // f32 losses near 1 carry 1e-7, which a step of 2e-2 turns into 1e-5; the cubic term is of the order h².
        close(gradient[i], numeric, 3e-4);
    }
}

#[test]
fn entropy_of_uniform_logits_is_ln_c() {
    let h = entropy(&tensor(&[2.0; 10], [2, 5])).unwrap().to_vec().unwrap();
    for h in h {
        close(h, 5_f64.ln(), 1e-6);
    }
}

#[test]
fn entropy_and_mutual_information_match_the_printed_sums() {
    let (b, c) = (4, 3);
    let data = logits(b, c);
    let p: Vec<Vec<f64>> = data.chunks(c).map(softmax).collect();
    let h = |p: &[f64]| -p.iter().map(|p| p * p.ln()).sum::<f64>();
    let p_bar: Vec<f64> = (0..c).map(|k| p.iter().map(|p| p[k]).sum::<f64>() / b as f64).collect();
    let mean_h = p.iter().map(|p| h(p)).sum::<f64>() / b as f64;
    let z = tensor(&data, [b, c]);
    close(mean_entropy(&z).unwrap().item().unwrap(), mean_h, 1e-6);
    close(mutual_information(&z).unwrap().item().unwrap(), mean_h - h(&p_bar), 1e-6);
}

#[test]
fn saturated_logits_give_finite_losses_and_gradients() {
    // Class 2 underflows to p = 0 in both rows.
    let z = tensor(&[400.0, 0.0, -400.0, 0.0, 400.0, -400.0], [2, 3]).variable();
    let loss = mutual_information(&z).unwrap();
    close(loss.item().unwrap(), -(2_f64.ln()), 1e-6);
    let gradients = loss.backward().unwrap();
    assert!(gradients.get(&z).unwrap().to_vec().unwrap().iter().all(|g| g.is_finite()));
}

#[test]
fn hard_cross_entropy_is_minus_the_log_probability() {
    let data = logits(2, 4);
    let loss = cross_entropy(&tensor(&data, [2, 4]), &[3, 0]).unwrap().to_vec().unwrap();
    close(loss[0], -softmax(&data[..4])[3].ln(), 1e-6);
    close(loss[1], -softmax(&data[4..])[0].ln(), 1e-6);
}

#[test]
fn one_hot_targets_make_soft_cross_entropy_hard() {
    let z = tensor(&logits(2, 3), [2, 3]);
    let hard = cross_entropy(&z, &[1, 2]).unwrap().to_vec().unwrap();
    let target = tensor(&[0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [2, 3]);
    assert_eq!(cross_entropy_soft(&z, &target).unwrap().to_vec().unwrap(), hard);
}

#[test]
fn mixed_labels_weigh_both_labels_and_the_caller_sets_the_denominator() {
    let data = logits(2, 3);
    let z = tensor(&data, [2, 3]);
    let labels = MixedLabels { first: &[0, 2], second: &[2, 0], lambda: 0.3 };
    let log_p: Vec<Vec<f64>> =
        data.chunks(3).map(|row| softmax(row).iter().map(|p| p.ln()).collect()).collect();
    let sum = 0.3 * (log_p[0][0] + log_p[1][2]) + 0.7 * (log_p[0][2] + log_p[1][0]);
    close(interpolation_consistency(&z, labels, 2).unwrap().item().unwrap(), -sum / 2.0, 1e-6);
    close(interpolation_consistency(&z, labels, 50).unwrap().item().unwrap(), -sum / 50.0, 1e-6);
}

#[test]
fn symmetric_cross_entropy_of_equal_logits_is_their_entropy() {
    let z = tensor(&logits(3, 4), [3, 4]);
    let h = entropy(&z).unwrap().to_vec().unwrap();
    let s = symmetric_cross_entropy(&z, &z).unwrap().to_vec().unwrap();
    h.iter().zip(&s).for_each(|(h, s)| close(*s, f64::from(*h), 1e-6));
    let other = tensor(&logits(6, 4)[12..], [3, 4]);
    let ab = symmetric_cross_entropy(&z, &other).unwrap().to_vec().unwrap();
    let ba = symmetric_cross_entropy(&other, &z).unwrap().to_vec().unwrap();
    ab.iter().zip(&ba).for_each(|(ab, ba)| close(*ab, f64::from(*ba), 1e-6));
}

#[test]
fn the_double_softmax_terms_match_their_closed_forms() {
    let (b, c) = (3, 4);
    let data = logits(b, c);
    let z = tensor(&data, [b, c]);
    let p: Vec<Vec<f64>> = data.chunks(c).map(softmax).collect();
    let lse = |p: &[f64]| p.iter().map(|p| p.exp()).sum::<f64>().ln();
    let gini = |p: &[f64]| lse(p) - p.iter().map(|p| p * p).sum::<f64>();
    let p_bar: Vec<f64> = (0..c).map(|k| p.iter().map(|p| p[k]).sum::<f64>() / b as f64).collect();
    let l_ent = p.iter().map(|p| gini(p)).sum::<f64>() / b as f64;
    close(double_softmax_entropy(&z).unwrap().item().unwrap(), l_ent, 1e-6);
    close(double_softmax_diversity(&z).unwrap().item().unwrap(), gini(&p_bar), 1e-6);
    let labels = MixedLabels { first: &[0, 1, 2], second: &[1, 2, 0], lambda: 0.25 };
    let l_ic = (0..b)
        .map(|n| lse(&p[n]) - 0.25 * p[n][labels.first[n]] - 0.75 * p[n][labels.second[n]])
        .sum::<f64>();
    close(
        double_softmax_consistency(&z, labels, b).unwrap().item().unwrap(),
        l_ic / b as f64,
        1e-6,
    );
}

#[test]
fn the_poly_conjugate_label_solves_its_linear_system() {
    let (data, eps) = (logits(1, 4), 6.0);
    let p = softmax(&data);
    let u: Vec<f64> = p.iter().map(|p| p / (1.0 + eps * p)).collect();
    let shrink = 1.0 - eps * p.iter().zip(&u).map(|(p, u)| p * u).sum::<f64>();
    let y: Vec<f64> = u.iter().map(|u| u / shrink).collect();
    let py: f64 = p.iter().zip(&y).map(|(p, y)| p * y).sum();
    for (p, y) in p.iter().zip(&y) {
        assert!((y + eps * p * y - eps * p * py - p).abs() < 1e-12);
    }
    let lse = data.iter().map(|&z| f64::from(z).exp()).sum::<f64>().ln();
    let expected =
        lse - (0..4).map(|k| y[k] * f64::from(data[k]) - eps * y[k] * (1.0 - p[k])).sum::<f64>();
    let got = poly_conjugate(&tensor(&data, [1, 4]), eps as f32).unwrap().to_vec().unwrap()[0];
    close(got, expected, 1e-5);
}

#[test]
fn without_the_poly_term_the_conjugate_loss_is_the_entropy() {
    let z = tensor(&logits(3, 5), [3, 5]);
    let h = entropy(&z).unwrap().to_vec().unwrap();
    let l = poly_conjugate(&z, 0.0).unwrap().to_vec().unwrap();
    h.iter().zip(&l).for_each(|(h, l)| close(*l, f64::from(*h), 1e-6));
}

#[test]
fn the_contrastive_loss_matches_the_printed_sum() {
    let (data, groups, tau) = (logits(5, 3), [0, 1, 0, 1, 2], 0.5);
    let unit: Vec<Vec<f64>> = data
        .chunks(3)
        .map(|row| {
            let norm = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            row.iter().map(|&v| f64::from(v) / norm).collect()
        })
        .collect();
    let dot =
        |i: usize, j: usize| unit[i].iter().zip(&unit[j]).map(|(a, b)| a * b).sum::<f64>() / tau;
    let mut expected = 0.0;
    for (i, j) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        let partition: f64 = (0..5).filter(|&k| k != i).map(|k| dot(i, k).exp()).sum();
        expected -= (dot(i, j) - partition.ln()) / 5.0;
    }
    let got = supervised_contrastive(&tensor(&data, [5, 3]), &groups, tau as f32)
        .unwrap()
        .item()
        .unwrap();
    close(got, expected, 1e-5);
}

#[test]
fn the_distance_of_moments_counts_shift_and_stretch_in_the_deviations_given() {
    // Column 0 has mean 2 and deviation 1, column 1 mean 5 and deviation 2.
    let rows = tensor(&[1.0, 3.0, 3.0, 7.0], [2, 2]);
    let row = |data: [f32; 2]| Tensor::from_vec(data.to_vec(), [2], &Device::cpu()).unwrap();
    let distance =
        |mean, std| moment_distance(&rows, &row(mean), &row(std)).unwrap().item().unwrap();
    close(distance([2.0, 5.0], [1.0, 2.0]), 0.0, 1e-6);
    close(distance([2.0, 4.0], [2.0, 0.5]), (0.25 + 4.0 + 9.0) / 2.0, 1e-5);
    let flat = tensor(&[4.0; 6], [3, 2]).variable();
    let loss = moment_distance(&flat, &row([4.0, 4.0]), &row([1.0, 1.0])).unwrap();
    let gradients = loss.backward().unwrap();
    assert_eq!(gradients.get(&flat).unwrap().to_vec().unwrap(), [0.0; 6]);
}

#[test]
fn an_opinion_has_the_entropy_of_its_evidence_and_of_its_doubt() {
    // Evidence e^x = 1, 2, 5 and doubt 3 of 11 in all.
    let z = tensor(&[0.0, 2_f32.ln(), 5_f32.ln()], [1, 3]);
    let expected: f64 = [1.0, 2.0, 5.0, 3.0].iter().map(|e| -e / 11.0 * f64::ln(e / 11.0)).sum();
    close(opinion_entropy(&z).unwrap().item().unwrap(), expected, 1e-6);
    // Without evidence for any class all of it is doubt; no logits at all have a value and a gradient too.
    let none = opinion_entropy(&tensor(&[-60.0; 3], [1, 3])).unwrap().item().unwrap();
    close(none, 0.0, 1e-6);
    let zero = tensor(&[0.0; 3], [1, 3]).variable();
    let loss = opinion_entropy(&zero).unwrap().sum_all().unwrap();
    close(loss.item().unwrap(), 6_f64.ln() / 2.0 + 2_f64.ln() / 2.0, 1e-6);
    let gradients = loss.backward().unwrap();
    assert!(gradients.get(&zero).unwrap().to_vec().unwrap().iter().all(|g| g.is_finite()));
}

/// The loss with every row brought back to the length that it had, which is what the gradient sees.
#[test]
fn the_gradient_of_an_opinion_keeps_the_length_of_the_logits() {
    let (b, c) = (4, 3);
    let data = logits(b, c);
    let length = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>().sqrt();
    let z = tensor(&data, [b, c]).variable();
    let gradients = opinion_entropy(&z).unwrap().mean_all().unwrap().backward().unwrap();
    let gradient = gradients.get(&z).unwrap().to_vec().unwrap();
    for (row, gradient) in data.chunks(c).zip(gradient.chunks(c)) {
        let along: f32 = row.iter().zip(gradient).map(|(x, g)| x * g).sum();
        close(along, 0.0, 1e-6);
    }
    for i in 0..data.len() {
        let at = |shift: f32| {
            let mut moved = data.clone();
            moved[i] += shift;
            let pairs = moved.chunks(c).zip(data.chunks(c));
            let rows: Vec<f32> = pairs
                .flat_map(|(to, from)| to.iter().map(|x| x * length(from) / length(to)))
                .collect();
            let loss = opinion_entropy(&tensor(&rows, [b, c])).unwrap();
            f64::from(loss.mean_all().unwrap().item().unwrap())
        };
        close(gradient[i], (at(1e-2) - at(-1e-2)) / 2e-2, 3e-4);
    }
}

#[test]
fn the_likelihood_ratio_matches_the_printed_sum_and_does_not_fade() {
    let data = logits(2, 4);
    let found = soft_likelihood_ratio(&tensor(&data, [2, 4])).unwrap().to_vec().unwrap();
    for (row, found) in data.chunks(4).zip(found) {
        let p = softmax(row);
        let expected: f64 = p.iter().map(|p| -p * (p / (1.0 - p) + 1e-5).ln()).sum();
        close(found, expected, 1e-5);
    }
    // Two classes, p = 0.98: the gradient of the entropy is a fraction of the ratio's.
    let sure = tensor(&[49_f32.ln(), 0.0], [1, 2]).variable();
    let slope = |loss: Tensor| {
        let gradients = loss.sum_all().unwrap().backward().unwrap();
        gradients.get(&sure).unwrap().to_vec().unwrap()[0]
    };
    let ratio = slope(soft_likelihood_ratio(&sure).unwrap());
    assert!(ratio < 6.0 * slope(entropy(&sure).unwrap()), "{ratio}");
    // Above the clip nothing pushes further, and nothing is infinite.
    let clipped = tensor(&[400.0, 0.0, 0.0], [1, 3]).variable();
    let loss = soft_likelihood_ratio(&clipped).unwrap();
    close(loss.item().unwrap(), -0.99 * 99_f64.ln(), 1e-4);
    let gradients = loss.sum_all().unwrap().backward().unwrap();
    assert_eq!(gradients.get(&clipped).unwrap().to_vec().unwrap(), [0.0; 3]);
}

#[test]
fn every_loss_has_the_gradient_of_its_finite_differences() {
    let labels = MixedLabels { first: &[0, 1, 2, 0], second: &[2, 0, 1, 1], lambda: 0.35 };
    let other = tensor(&logits(8, 3)[12..], [4, 3]);
    agrees_with_finite_differences(4, 3, |z| mean_entropy(z).unwrap());
    agrees_with_finite_differences(4, 3, |z| marginal_entropy(z).unwrap());
    agrees_with_finite_differences(4, 3, |z| mutual_information(z).unwrap());
    agrees_with_finite_differences(4, 3, |z| {
        cross_entropy(z, labels.first).unwrap().mean_all().unwrap()
    });
    agrees_with_finite_differences(4, 3, |z| interpolation_consistency(z, labels, 4).unwrap());
    agrees_with_finite_differences(4, 3, |z| double_softmax_entropy(z).unwrap());
    agrees_with_finite_differences(4, 3, |z| double_softmax_diversity(z).unwrap());
    agrees_with_finite_differences(4, 3, |z| double_softmax_consistency(z, labels, 4).unwrap());
    agrees_with_finite_differences(4, 3, |z| poly_conjugate(z, 2.0).unwrap().mean_all().unwrap());
    agrees_with_finite_differences(4, 3, |z| soft_likelihood_ratio(z).unwrap().mean_all().unwrap());
    agrees_with_finite_differences(4, 3, |z| {
        supervised_contrastive(z, &[0, 1, 0, 1], 0.5).unwrap()
    });
    let moments = [[0.4, -0.3, 0.1], [1.3, 0.8, 2.0]]
        .map(|row| Tensor::from_vec(row.to_vec(), [3], &Device::cpu()).unwrap());
    agrees_with_finite_differences(4, 3, |z| moment_distance(z, &moments[0], &moments[1]).unwrap());
    agrees_with_finite_differences(4, 3, |z| {
        let (mean, std) = row_moments(z).unwrap();
        let apart = distance(&std.unwrap(), &moments[1]).unwrap();
        distance(&mean, &moments[0]).unwrap().add(&apart).unwrap()
    });
    let target = other.softmax().unwrap();
    agrees_with_finite_differences(4, 3, |z| {
        cross_entropy_soft(z, &target).unwrap().mean_all().unwrap()
    });
    agrees_with_finite_differences(4, 3, |z| {
        symmetric_cross_entropy(z, &other).unwrap().mean_all().unwrap()
    });
    agrees_with_finite_differences(4, 3, |z| {
        symmetric_cross_entropy(&other, z).unwrap().mean_all().unwrap()
    });
}

#[test]
fn moments_of_rows_and_their_distance_by_hand() {
    let rows = tensor(&[1.0, 3.0, 3.0, 7.0], [2, 2]);
    let (mean, std) = row_moments(&rows).unwrap();
    let std = std.unwrap().to_vec().unwrap();
    assert_eq!(mean.to_vec().unwrap(), [2.0, 5.0]);
    std.iter().zip([2.0, 8.0]).for_each(|(found, square)| close(*found, f64::sqrt(square), 1e-6));
    assert!(row_moments(&tensor(&[1.0, 3.0], [1, 2])).unwrap().1.is_none());
    let row = |data: [f32; 2]| Tensor::from_vec(data.to_vec(), [2], &Device::cpu()).unwrap();
    close(distance(&mean, &row([5.0, 9.0])).unwrap().item().unwrap(), 5.0, 1e-6);
    let same = mean.variable();
    let gradients = distance(&same, &mean).unwrap().backward().unwrap();
    assert_eq!(gradients.get(&same).unwrap().to_vec().unwrap(), [0.0, 0.0]);
}

#[test]
fn labels_out_of_range_are_refused() {
    let z = tensor(&logits(2, 3), [2, 3]);
    assert!(cross_entropy(&z, &[0, 3]).is_err());
    assert!(cross_entropy(&z, &[0]).is_err());
}

#[test]
fn the_symmetric_divergence_is_both_kullback_leibler_sums_and_zero_between_equals() {
    let (a, b) = (tensor(&[0.0, 0.0], [1, 2]), tensor(&[3_f32.ln(), 0.0], [1, 2]));
    // p = (1/2, 1/2), q = (3/4, 1/4): (p - q) (ln p - ln q) sums to ln 3 / 4.
    let found = symmetric_divergence(&a, &b).unwrap().to_vec().unwrap();
    close(found[0], 3_f64.ln() / 4.0, 1e-6);
    let swapped = symmetric_divergence(&b, &a).unwrap().to_vec().unwrap();
    close(swapped[0], f64::from(found[0]), 1e-7);
    assert_eq!(symmetric_divergence(&b, &b).unwrap().to_vec().unwrap(), [0.0]);
}

#[test]
fn the_gradient_of_the_symmetric_divergence_agrees_with_finite_differences() {
    let fixed = tensor(&[0.3, -0.2, 1.1, 0.4, 0.0, -0.9, 0.2, 0.1, 0.5, -0.4, 0.6, 0.7], [3, 4]);
    let mean = |a: &Tensor, b: &Tensor| symmetric_divergence(a, b).unwrap().mean_all().unwrap();
    agrees_with_finite_differences(3, 4, |z| mean(z, &fixed));
    agrees_with_finite_differences(3, 4, |z| mean(&fixed, z));
}
