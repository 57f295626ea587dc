//! What training adds: one step of all parameters against its formulas, and both that and composed batches on a GPU
//! against the CPU.

use paint_tensor::{
    Device, Draw, Edge, Images, Rect, StepParam, StepRule, SteppedParam, Tensor, Tone,
    TrainingStep, View,
};

use crate::cases::values;
use crate::device::{self, gpus};

const ADAMW: StepRule =
    StepRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, t: 3, decoupled: true };
const ADAM: StepRule =
    StepRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, t: 1, decoupled: false };
const SGD: StepRule = StepRule::Sgd { momentum: 0.9, nesterov: true };
const SHAPES: [&[usize]; 3] = [&[37], &[129, 40], &[1, 3, 5]];

/// Three parameters, the second without an average, after one step; and the norm of their gradients.
fn stepped(
    step: &TrainingStep,
    remembers: bool,
    device: &Device,
) -> (Vec<SteppedParam>, Option<f32>) {
    let tensor = |shape: &[usize], seed: usize, offset: f32| {
        let data = values(shape.iter().product(), seed).iter().map(|x| x + offset).collect();
        Tensor::from_vec(data, shape, device).expect("the shape fits")
    };
    let rows: Vec<[Tensor; 5]> = (SHAPES.iter().enumerate())
        .map(|(i, shape)| {
            // A second moment is positive.
            let offsets = [0.0, 0.0, 0.0, 1.1, 0.0];
            [0, 1, 2, 3, 4].map(|what| tensor(shape, 5 * i + what, offsets[what]))
        })
        .collect();
    let params: Vec<StepParam<'_>> = (rows.iter().enumerate())
        .map(|(i, [value, grad, first, second, average])| StepParam {
            value,
            grad,
            first: remembers.then_some(first),
            second: remembers.then_some(second),
            average: (i != 1).then_some(average),
            lr: 0.01 * (i + 1) as f32,
            weight_decay: 0.1 * i as f32,
        })
        .collect();
    let (stepped, norm) = step.apply(&params).expect("shapes and devices agree");
    (stepped, norm.map(|norm| norm.item().expect("one element")))
}

fn numbers(params: &[SteppedParam]) -> Vec<f32> {
    let all = params.iter().flat_map(|param| {
        [Some(&param.value), Some(&param.first), param.second.as_ref(), param.average.as_ref()]
    });
    all.flatten().flat_map(|tensor| tensor.to_vec().expect("readable")).collect()
}

#[test]
fn a_clipped_step_with_average_follows_its_formulas() {
    let step = TrainingStep { rule: ADAMW, clip: Some(2.0), average_decay: 0.75 };
    let (found, norm) = stepped(&step, true, &Device::cpu());
    let gradients: Vec<Vec<f32>> = (SHAPES.iter().enumerate())
        .map(|(i, shape)| values(shape.iter().product(), 5 * i + 1))
        .collect();
    let expected = gradients.iter().flatten().map(|g| g * g).sum::<f32>().sqrt();
    assert!((norm.unwrap() - expected).abs() < 1e-3 && expected > 2.0, "{norm:?} {expected}");
    let factor = 2.0 / expected;
    let (i, j, lr, decay) = (2, 4, 0.03, 0.2);
    let at = |what: usize, offset: f32| values(15, 5 * i + what)[j] + offset;
    let g = factor * gradients[i][j];
    let (m, v) = (0.9 * at(2, 0.0) + 0.1 * g, 0.999 * at(3, 1.1) + 0.001 * g * g);
    let (m_hat, v_hat) = (m / (1.0 - 0.9_f32.powi(3)), v / (1.0 - 0.999_f32.powi(3)));
    let value = at(0, 0.0) * (1.0 - lr * decay) - lr * m_hat / (v_hat.sqrt() + 1e-8);
    let got = |tensor: &Tensor| tensor.to_vec().unwrap()[j];
    assert!((got(&found[i].value) - value).abs() < 1e-5);
    assert!((got(&found[i].first) - m).abs() < 1e-6);
    let average = 0.75 * at(4, 0.0) + 0.25 * value;
    assert!((got(found[i].average.as_ref().unwrap()) - average).abs() < 1e-5);
    assert!(found[1].average.is_none());
}

#[test]
fn plain_steps_follow_their_formulas() {
    let make = |x: &[f32]| Tensor::from_vec(x.to_vec(), [x.len()], &Device::cpu()).unwrap();
    let (p, g, v) = (make(&[1.0, -2.0]), make(&[0.5, 0.25]), make(&[0.1, -0.1]));
    let step = |rule, first, weight_decay| {
        let (value, grad, lr) = (&p, &g, 0.1);
        let param = StepParam { value, grad, first, second: None, average: None, lr, weight_decay };
        let step = TrainingStep { rule, clip: None, average_decay: 0.0 };
        step.apply(&[param]).unwrap().0.remove(0)
    };
    let sgd = |nesterov| step(StepRule::Sgd { momentum: 0.9, nesterov }, Some(&v), 0.01);
    let (plain, nesterov, adam) = (sgd(false), sgd(true), step(ADAM, None, 0.0));
    let decayed = step(ADAM, None, 0.5);
    for i in 0..2 {
        let at = |t: &Tensor| t.to_vec().unwrap()[i];
        let gradient = at(&g) + 0.01 * at(&p);
        let moved = 0.9 * at(&v) + gradient;
        assert!((at(&plain.first) - moved).abs() < 1e-6);
        assert!((at(&plain.value) - (at(&p) - 0.1 * moved)).abs() < 1e-6);
        assert!((at(&nesterov.value) - (at(&p) - 0.1 * (gradient + 0.9 * moved))).abs() < 1e-6);
        // Fresh moments make a step of the sign of the gradient, and decay is inside that.
        assert!((at(&adam.value) - (at(&p) - 0.1 * at(&g).signum())).abs() < 1e-5);
        assert!((at(&adam.first) - 0.1 * at(&g)).abs() < 1e-7);
        let second = adam.second.as_ref().unwrap();
        assert!((at(second) - 0.001 * at(&g) * at(&g)).abs() < 1e-8);
        assert!((at(&decayed.first) - 0.1 * (at(&g) + 0.5 * at(&p))).abs() < 1e-7);
    }
}

#[test]
fn a_nan_in_one_gradient_reaches_every_parameter_that_is_clipped_with_it() {
    for device in device::all() {
        let tensor = |x: &[f32]| Tensor::from_vec(x.to_vec(), [x.len()], &device).unwrap();
        let (value, good, bad) =
            (tensor(&[1.0, 2.0]), tensor(&[0.5, 0.5]), tensor(&[0.5, f32::NAN]));
        for (rule, clip) in [(SGD, None), (SGD, Some(1.0)), (ADAM, None), (ADAMW, Some(1.0))] {
            let param = |grad| StepParam {
                value: &value,
                grad,
                first: None,
                second: None,
                average: Some(&value),
                lr: 0.1,
                weight_decay: 0.0,
            };
            let step = TrainingStep { rule, clip, average_decay: 0.5 };
            let (stepped, norm) = step.apply(&[param(&good), param(&bad)]).unwrap();
            let has_nan = |tensor: &Tensor| tensor.to_vec().unwrap().iter().any(|x| x.is_nan());
            let [whole, spoilt] = &stepped[..] else { panic!("two parameters") };
            assert!(has_nan(&spoilt.value) && has_nan(&spoilt.first), "{device}, {rule:?}");
            assert!(has_nan(spoilt.average.as_ref().unwrap()), "{device}, {rule:?}");
            assert_eq!(has_nan(&whole.value), clip.is_some(), "{device}, {rule:?}, {clip:?}");
            assert!(norm.is_none_or(|norm| has_nan(&norm)), "{device}");
        }
    }
}

#[test]
fn small_gradients_are_left_as_they_are() {
    let free = TrainingStep { rule: SGD, clip: None, average_decay: 0.9 };
    let loose = TrainingStep { clip: Some(1e6), ..free };
    let (a, none) = stepped(&free, false, &Device::cpu());
    let (b, norm) = stepped(&loose, false, &Device::cpu());
    assert_eq!(numbers(&a), numbers(&b));
    assert!(none.is_none() && norm.is_some());
}

#[test]
fn a_gpu_steps_as_the_cpu_does() {
    for device in gpus() {
        for rule in [ADAMW, ADAM, SGD] {
            for (clip, remembers) in [(Some(0.5), true), (Some(1e6), false), (None, true)] {
                let step = TrainingStep { rule, clip, average_decay: 0.99 };
                let (ours, norm) = stepped(&step, remembers, &device);
                let (reference, expected) = stepped(&step, remembers, &Device::cpu());
                for (a, b) in numbers(&ours).iter().zip(numbers(&reference)) {
                    // 1e-5: about ten operations of f32, each off by up to 6e-8, and Adam's division by a root.
                    assert!((a - b).abs() < 1e-5 + 1e-5 * b.abs(), "{device}: {a} and {b}");
                }
                if let (Some(a), Some(b)) = (norm, expected) {
                    // 1e-4: 5,212 squares, summed in f32 on a GPU and in f64 on the CPU.
                    assert!((a - b).abs() < 1e-4 * b, "{device}: norms {a} and {b}");
                }
                // A GPU writes a bf16 twin beside the value, which products read.
                let x = Tensor::from_vec(values(400, 9), [10, 40], &device).unwrap();
                let x = x.compact().unwrap();
                let value = &ours[1].value;
                let copy = Tensor::from_vec(value.to_vec().unwrap(), value.shape(), &device);
                let product = |w: &Tensor| x.linear(w, None).unwrap().to_vec().unwrap();
                assert_eq!(product(value), product(&copy.unwrap()), "{device}");
            }
        }
    }
}

#[test]
fn a_gpu_composes_as_the_cpu_does() {
    let (stored, size, count) = ([7, 9], [11, 6], 5);
    let bytes: Vec<u8> =
        values(count * 3 * 63, 3).iter().map(|x| (127.5 * (x + 1.0)) as u8).collect();
    let view = |index: usize, tone| View {
        matrix: [0.6, 0.1 * index as f32, -0.8, -0.2, 1.1, 0.5 * index as f32],
        brightness: 0.8 + 0.1 * index as f32,
        contrast: 1.3,
        saturation: 0.6,
        tone,
        ..View::new(index)
    };
    let rect = |top, left, bottom, right| Rect { top, left, bottom, right };
    let draws = [
        Draw::plain(View::new(4)),
        Draw::plain(View::stretched(3, stored, size)),
        Draw {
            second: Some(view(2, Tone::Grey)),
            weight: 0.3,
            ..Draw::plain(view(1, Tone::Natural))
        },
        Draw {
            second: Some(View::new(0)),
            cut: rect(2, 1, 9, 4),
            erased: rect(0, 0, 3, 6),
            ..Draw::plain(view(4, Tone::Solarized))
        },
    ];
    for edge in [Edge::Zeros, Edge::Reflect] {
        let on = |device: &Device| {
            let images = Images::new(&bytes, stored, device).unwrap();
            images.compose(&draws, size, edge).unwrap().to_vec().unwrap()
        };
        let reference = on(&Device::cpu());
        for device in gpus() {
            for (i, (a, b)) in on(&device).iter().zip(&reference).enumerate() {
                // 2e-5: fused multiply-adds on a GPU, in the place of a pixel and in its colours.
                assert!((a - b).abs() < 2e-5, "{device}, element {i}: {a} and {b}");
            }
        }
    }
}
