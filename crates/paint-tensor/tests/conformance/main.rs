//! Every operation against finite differences, on every backend of this build.
//!
//! A row of [`cases::CASES`] names an operation, the shapes of its inputs and how to call it. The loss is a fixed
//! random projection of the output, so that no gradient component can hide.

mod agreement;
mod cases;
mod device;
#[cfg(feature = "cuda")]
mod gpu;
mod kernel;
mod nan;
mod size;
mod training;

use paint_tensor::{BnMode, Conv2d, Device, Tensor, Windows};

use cases::{CASES, norm, projected, values};

#[test]
fn every_gradient_agrees_with_finite_differences() {
    for device in device::all() {
        for case in CASES {
            let data = case.data();
            let make = |data: &[Vec<f32>]| case.tensors(data, &device);
            let variables: Vec<Tensor> = make(&data).iter().map(Tensor::variable).collect();
            let gradients = projected(case, &variables).unwrap().backward().unwrap();
            for (i, variable) in variables.iter().enumerate() {
                let analytic =
                    gradients.get(variable).expect("every input is used").to_vec().unwrap();
                assert_eq!(analytic.len(), data[i].len(), "{}", case.name);
                for j in 0..data[i].len() {
                    let at = |step: f32| {
                        let mut moved = data.clone();
                        moved[i][j] += step;
                        f64::from(projected(case, &make(&moved)).unwrap().item().unwrap())
                    };
                    // Differences of fourth order with a step of 0.02: rounding costs about 1e-7 of a loss of up to
                    // 100, divided by the step, and the truncation error of these functions is smaller. Hence 1e-3,
                    // plus 2e-3 of the slope, where sums of f32 have lost a digit more.
                    let h = 0.02;
                    let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h)))
                        / (12.0 * f64::from(h));
                    let found = f64::from(analytic[j]);
                    let kink = case.name == "relu" && data[i][j].abs() < 3.0 * h;
                    assert!(
                        kink || (found - numeric).abs() < 1e-3 + 2e-3 * numeric.abs(),
                        "{} on {device}, input {i} element {j}: backward {found}, differences {numeric}",
                        case.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_frozen_input_gets_no_gradient_and_changes_no_other() {
    for case in CASES.iter().filter(|case| case.shapes.len() > 1) {
        let device = Device::cpu();
        let inputs = case.tensors(&case.data(), &device);
        let all: Vec<Tensor> = inputs.iter().map(Tensor::variable).collect();
        let expected = projected(case, &all).unwrap().backward().unwrap();
        for only in 0..inputs.len() {
            let mut mixed = inputs.clone();
            mixed[only] = inputs[only].variable();
            let gradients = projected(case, &mixed).unwrap().backward().unwrap();
            let (found, full) =
                (gradients.get(&mixed[only]).unwrap(), expected.get(&all[only]).unwrap());
            assert_eq!(
                found.to_vec().unwrap(),
                full.to_vec().unwrap(),
                "{} input {only}",
                case.name
            );
            assert!((0..inputs.len()).all(|i| i == only || gradients.get(&mixed[i]).is_none()));
        }
    }
}

#[test]
fn packed_crossed_and_mapped_attention_agree() {
    let device = Device::cpu();
    let (b, n, d, heads) = (2, 21, 24, 3);
    let qkv = Tensor::from_vec(values(b * n * 3 * d, 1), [b, n, 3 * d], &device).unwrap();
    let packed = qkv.attention(heads).unwrap().to_vec().unwrap();
    let (mapped, map) = qkv.attention_with_map(heads).unwrap();
    let (q, kv) = (qkv.slice(2, 0, d).unwrap(), qkv.slice(2, d, 2 * d).unwrap());
    let crossed = q.cross_attention(&kv, heads).unwrap().to_vec().unwrap();
    for ((a, b), c) in packed.iter().zip(mapped.to_vec().unwrap()).zip(&crossed) {
        // 1e-6: sums of 21 products of numbers below one, in another order; a few units of 2^-24.
        assert!((a - b).abs() < 1e-6 && (a - c).abs() < 1e-6);
    }
    for row in map.to_vec().unwrap().chunks_exact(n) {
        // 1e-5: 21 probabilities, each rounded to 2^-24, and an exponential good to 2e-7.
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
}

#[test]
fn an_operation_without_a_gradient_says_so() {
    let a = Tensor::zeros([2], &Device::cpu()).unwrap();
    let error = a.lerp(&a.variable(), 0.1).unwrap_err().to_string();
    assert!(error.contains("lerp") && error.contains("detach"), "{error}");
    assert!(a.lerp(&a, 0.1).is_ok());
}

#[test]
fn shapes_that_do_not_fit_are_refused_by_name() {
    let zeros = |shape: &[usize]| Tensor::zeros(shape, &Device::cpu()).unwrap();
    let messages = [
        zeros(&[2, 3]).linear(&zeros(&[4, 5]), None).unwrap_err().to_string(),
        zeros(&[2, 3]).matmul(&zeros(&[4, 5])).unwrap_err().to_string(),
        zeros(&[2, 3]).layer_norm(&zeros(&[2]), &zeros(&[3]), 1e-6).unwrap_err().to_string(),
        zeros(&[2, 5, 9]).attention(2).unwrap_err().to_string(),
        zeros(&[1, 3, 5, 4]).unfold_patches(2).unwrap_err().to_string(),
        zeros(&[2, 3]).gather(&[2]).unwrap_err().to_string(),
        Windows::new(vec![0, 1, 1], 3, None).unwrap_err().to_string(),
        zeros(&[2, 3]).pick(&[0, 3]).unwrap_err().to_string(),
        zeros(&[2, 3]).slice(1, 2, 2).unwrap_err().to_string(),
        zeros(&[2, 3]).permute(&[0, 0]).unwrap_err().to_string(),
        zeros(&[2, 3]).broadcast_to([3]).unwrap_err().to_string(),
        zeros(&[1, 3, 4, 4])
            .conv2d(&zeros(&[2, 2, 3, 3]), Conv2d::default())
            .unwrap_err()
            .to_string(),
        zeros(&[1, 2, 4, 4])
            .conv2d(&zeros(&[2, 2, 5, 3]), Conv2d::default())
            .unwrap_err()
            .to_string(),
        zeros(&[1, 6]).group_norm(4, &zeros(&[6]), &zeros(&[6]), 1e-5).unwrap_err().to_string(),
        zeros(&[1, 2, 4, 4]).max_pool(5, 1, 0).unwrap_err().to_string(),
        norm(&[zeros(&[1, 3]), zeros(&[2]), zeros(&[2])], BnMode::Batch).unwrap_err().to_string(),
    ];
    let words = [
        "weight",
        "matmul",
        "layer_norm",
        "attention",
        "images",
        "gather",
        "windows",
        "pick",
        "slice",
        "permute",
        "broadcast",
        "conv2d weight",
        "conv2d input",
        "group_norm",
        "max_pool",
        "batch_norm",
    ];
    for (message, word) in messages.iter().zip(words) {
        assert!(message.contains(word), "{message:?} does not name {word:?}");
    }
}
