use paint_rng::Seed;
use rayon::ThreadPoolBuilder;

use super::*;

/// `Bᵀ B` of a matrix of random numbers.
fn square(n: usize) -> Vec<f64> {
    let mut rng = Seed(n as u64).derive("eigen", &[]);
    let b: Vec<f64> = (0..n * n).map(|_| rng.uniform() - 0.5).collect();
    let at = |i: usize, j: usize| (0..n).map(|k| b[i * n + k] * b[j * n + k]).sum::<f64>();
    (0..n * n).map(|place| at(place / n, place % n)).collect()
}

#[test]
fn values_and_vectors_give_the_matrix_back() {
    for n in [1, 2, 3, 20, STRIP, STRIP + 1, 2 * STRIP + 6] {
        let a = square(n);
        let Eigen { values, vectors } = symmetric(a.clone(), n);
        assert!(values.is_sorted_by(|x, y| x >= y));
        for i in 0..n {
            for j in 0..n {
                let back: f64 =
                    (0..n).map(|k| values[k] * vectors[k * n + i] * vectors[k * n + j]).sum();
                assert!((back - a[i * n + j]).abs() < 1e-12, "{n}: {back} and {}", a[i * n + j]);
                let dot: f64 = (0..n).map(|k| vectors[i * n + k] * vectors[j * n + k]).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn a_root_times_itself_is_the_matrix() {
    let a = [4.0, 1.0, 0.5, 1.0, 3.0, 0.25, 0.5, 0.25, 2.0];
    let root = symmetric(a.to_vec(), 3).function(f64::sqrt);
    for (back, a) in product(&root, &root, 3).iter().zip(a) {
        assert!((back - a).abs() < 1e-12, "{back} for {a}");
    }
}

#[test]
fn equal_values_and_zeros_are_no_obstacle() {
    let Eigen { values, vectors } = symmetric(vec![0.0; 9], 3);
    assert_eq!((values, vectors.iter().sum::<f64>()), (vec![0.0; 3], 3.0));
    let twice = vec![2.0, 0.0, 0.0, 0.0, 1.5, 0.5, 0.0, 0.5, 1.5];
    let Eigen { values, .. } = symmetric(twice, 3);
    values.iter().zip([2.0, 2.0, 1.0]).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
    assert!(symmetric(Vec::new(), 0).values.is_empty());
}

#[test]
fn every_strip_is_right_and_the_same_for_any_number_of_threads() {
    for n in [STRIP + 1, 2 * STRIP + 6] {
        let a = square(n);
        let of = |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let Eigen { values, vectors } = symmetric(a.clone(), n);
                let twice = Eigen { values: values.clone(), vectors }.function(|x| 2.0 * x);
                let product = product(&a, &twice, n);
                (values, twice, product)
            })
        };
        let (values, twice, found) = of(1);
        assert_eq!(of(3), (values, twice.clone(), found.clone()));
        for (twice, a) in twice.iter().zip(&a) {
            assert!((twice - 2.0 * a).abs() < 1e-12, "{twice} for twice {a}");
        }
        for (place, found) in found.iter().enumerate() {
            let (i, j) = (place / n, place % n);
            let expected: f64 = (0..n).map(|k| a[i * n + k] * twice[k * n + j]).sum();
            assert!((found - expected).abs() < 1e-11, "{found} for {expected}");
        }
    }
}
