//! Every operation against finite differences, on every backend of this build.
//!
//! A row of [`CASES`] names an operation, the shapes of its inputs and how to call it. The loss is a fixed random
//! projection of the output, so that no gradient component can hide.

use paint_tensor::{BACKENDS, BatchNorm, BnMode, Conv2d, Device, Result, Tensor};

struct Case {
    name: &'static str,
    shapes: &'static [&'static [usize]],
    /// Added to the random inputs in [-1, 1], to keep logarithms and roots in their domain.
    offset: f32,
    run: fn(&[Tensor]) -> Result<Tensor>,
}

const fn case(
    name: &'static str,
    shapes: &'static [&'static [usize]],
    run: fn(&[Tensor]) -> Result<Tensor>,
) -> Case {
    Case { name, shapes, offset: 0.0, run }
}

const fn positive(
    name: &'static str,
    shapes: &'static [&'static [usize]],
    run: fn(&[Tensor]) -> Result<Tensor>,
) -> Case {
    Case { name, shapes, offset: 2.0, run }
}

const CASES: &[Case] = &[
    case("linear", &[&[2, 3, 5], &[4, 5], &[4]], |x| x[0].linear(&x[1], Some(&x[2]))),
    case("linear without bias", &[&[6, 5], &[33, 5]], |x| x[0].linear(&x[1], None)),
    case("linear_gelu", &[&[3, 5], &[40, 5], &[40]], |x| x[0].linear_gelu(&x[1], Some(&x[2]))),
    case("linear_gelu without bias", &[&[3, 5], &[4, 5]], |x| x[0].linear_gelu(&x[1], None)),
    case("linear_residual", &[&[2, 3, 5], &[4, 5], &[4], &[2, 3, 4]], |x| {
        x[0].linear_residual(&x[1], Some(&x[2]), &x[3])
    }),
    case("matmul", &[&[2, 3, 4, 5], &[2, 3, 5, 6]], |x| x[0].matmul(&x[1])),
    case("matmul with a shared right side", &[&[2, 3, 5], &[5, 4]], |x| x[0].matmul(&x[1])),
    case("layer_norm", &[&[3, 2, 18], &[18], &[18]], |x| x[0].layer_norm(&x[1], &x[2], 1e-6)),
    case("l2_normalize", &[&[4, 7]], |x| x[0].l2_normalize()),
    case("attention", &[&[2, 5, 24]], |x| x[0].attention(2)),
    case("cross_attention", &[&[2, 3, 8], &[2, 5, 16]], |x| x[0].cross_attention(&x[1], 2)),
    case("attention_with_map, output", &[&[2, 4, 24]], |x| Ok(x[0].attention_with_map(2)?.0)),
    case("attention_with_map, map", &[&[2, 4, 24]], |x| Ok(x[0].attention_with_map(2)?.1)),
    case("gelu", &[&[5, 7]], |x| x[0].scale(3.0)?.gelu()),
    case("relu", &[&[5, 7]], |x| x[0].relu()),
    case("softmax", &[&[4, 9]], |x| x[0].scale(3.0)?.softmax()),
    case("log_softmax", &[&[4, 9]], |x| x[0].scale(3.0)?.log_softmax()),
    case("add with broadcasting", &[&[2, 1, 3], &[4, 1]], |x| x[0].add(&x[1])),
    case("sub with broadcasting", &[&[3], &[2, 3]], |x| x[0].sub(&x[1])),
    case("mul", &[&[2, 3], &[2, 3]], |x| x[0].mul(&x[1])),
    case("mul with broadcasting", &[&[2, 4, 3], &[4, 1]], |x| x[0].mul(&x[1])),
    positive("div with broadcasting", &[&[2, 4, 3], &[3]], |x| x[0].div(&x[1])),
    case("scale", &[&[5]], |x| x[0].scale(-2.5)),
    case("add_scalar", &[&[5]], |x| x[0].add_scalar(0.5)),
    case("neg", &[&[5]], |x| x[0].neg()),
    case("exp", &[&[2, 20]], |x| x[0].exp()),
    positive("log", &[&[2, 20]], |x| x[0].log()),
    positive("sqrt", &[&[2, 20]], |x| x[0].sqrt()),
    case("sum over the first axis", &[&[3, 2, 4]], |x| x[0].sum(0)),
    case("sum over a middle axis", &[&[3, 5, 4]], |x| x[0].sum(1)),
    case("mean over the last axis", &[&[3, 2, 4]], |x| x[0].mean(2)),
    case("sum_all", &[&[3, 4]], |x| x[0].mul(&x[0])?.sum_all()),
    case("mean_all", &[&[3, 4]], |x| x[0].mul(&x[0])?.mean_all()),
    case("broadcast_to", &[&[2, 1, 3]], |x| x[0].broadcast_to([4, 2, 5, 3])),
    case("reshape", &[&[2, 6]], |x| x[0].reshape([3, 4])),
    case("permute", &[&[2, 3, 4, 5]], |x| x[0].permute(&[2, 0, 3, 1])),
    case("transpose", &[&[2, 3, 4]], |x| x[0].transpose(0, 2)),
    case("slice of the first axis", &[&[5, 3]], |x| x[0].slice(0, 1, 3)),
    case("slice of a middle axis", &[&[2, 5, 3]], |x| x[0].slice(1, 2, 2)),
    case("concat", &[&[2, 1, 3], &[2, 4, 3]], |x| Tensor::concat(&[&x[0], &x[1]], 1)),
    case("gather with repeats", &[&[4, 3]], |x| x[0].gather(&[2, 0, 2, 3])),
    case("pick", &[&[3, 5]], |x| x[0].pick(&[4, 0, 2])),
    case("conv2d", &[&[2, 3, 5, 7], &[4, 3, 3, 3]], |x| conv(x, 1, 1, 1)),
    case("conv2d with stride", &[&[2, 2, 6, 7], &[3, 2, 3, 3]], |x| conv(x, 2, 1, 1)),
    case("conv2d that leaves pixels out", &[&[1, 2, 8, 6], &[9, 2, 3, 2]], |x| conv(x, 3, 0, 1)),
    case("conv2d of single pixels", &[&[2, 3, 5, 4], &[10, 3, 1, 1]], |x| conv(x, 2, 0, 1)),
    case("conv2d with wide padding", &[&[1, 2, 3, 2], &[2, 2, 1, 2]], |x| conv(x, 2, 2, 1)),
    case("conv2d in groups", &[&[2, 4, 5, 3], &[6, 2, 3, 3]], |x| conv(x, 1, 1, 2)),
    case("conv2d by channel", &[&[1, 3, 4, 5], &[3, 1, 2, 2]], |x| conv(x, 1, 0, 3)),
    case("batch_norm, running", &[&[3, 2, 2, 3], &[2], &[2]], |x| norm(x, BnMode::Running)),
    case("batch_norm, batch", &[&[3, 2, 2, 3], &[2], &[2]], |x| norm(x, BnMode::Batch)),
    case("batch_norm, mixed", &[&[3, 2, 2, 3], &[2], &[2]], |x| {
        norm(x, BnMode::Mixed { batch: 0.3 })
    }),
    case("batch_norm without planes", &[&[5, 3], &[3], &[3]], |x| norm(x, BnMode::Batch)),
    case("group_norm", &[&[2, 6, 2, 3], &[6], &[6]], |x| x[0].group_norm(2, &x[1], &x[2], 1e-5)),
    case("group_norm of one group", &[&[2, 3, 4], &[3], &[3]], |x| {
        x[0].group_norm(1, &x[1], &x[2], 1e-5)
    }),
    case("max_pool", &[&[2, 2, 5, 7]], |x| spread(&x[0])?.max_pool(3, 2, 1)),
    case("avg_pool", &[&[2, 2, 5, 7]], |x| x[0].avg_pool(3, 2)),
    case("avg_pool of every other pixel", &[&[2, 2, 5, 4]], |x| x[0].avg_pool(1, 2)),
    case("global_avg_pool", &[&[2, 3, 2, 5]], |x| x[0].global_avg_pool()),
    case("unfold_patches of a non-square image", &[&[2, 3, 4, 6]], |x| x[0].unfold_patches(2)),
];

fn conv(x: &[Tensor], stride: usize, padding: usize, groups: usize) -> Result<Tensor> {
    x[0].conv2d(&x[1], Conv2d { stride, padding, groups })
}

fn norm(x: &[Tensor], mode: BnMode) -> Result<Tensor> {
    let c = x[1].elem_count();
    let running = |seed| Tensor::from_vec(values(c, seed), [c], x[1].device());
    let (running_mean, running_var) = (running(5)?, running(6)?.add_scalar(1.5)?);
    x[0].batch_norm(&BatchNorm {
        scale: &x[1],
        shift: &x[2],
        running_mean: &running_mean,
        running_var: &running_var,
        eps: 1e-5,
        mode,
    })
}

/// Elements further apart than a difference moves them, in no order: no maximum changes its place.
fn spread(x: &Tensor) -> Result<Tensor> {
    let steps = (0..x.elem_count()).map(|i| (i * 4 % 11) as f32 * 3.0).collect();
    x.add(&Tensor::from_vec(steps, x.shape(), x.device())?)
}

/// A fixed sequence in [-1, 1].
fn values(len: usize, seed: usize) -> Vec<f32> {
    let mut state = (seed as u32).wrapping_mul(2_654_435_761).wrapping_add(97);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn projected(case: &Case, inputs: &[Tensor]) -> Result<Tensor> {
    let out = (case.run)(inputs)?;
    let weights = Tensor::from_vec(values(out.elem_count(), 77), out.shape(), out.device())?;
    out.mul(&weights)?.sum_all()
}

fn devices() -> Vec<Device> {
    BACKENDS.iter().filter_map(|entry| Device::from_name(entry.name).ok()).collect()
}

#[test]
fn every_gradient_agrees_with_finite_differences() {
    for device in devices() {
        for case in CASES {
            let data: Vec<Vec<f32>> = (case.shapes.iter().enumerate())
                .map(|(i, shape)| {
                    values(shape.iter().product(), i).iter().map(|x| x + case.offset).collect()
                })
                .collect();
            let make = |data: &[Vec<f32>]| -> Vec<Tensor> {
                data.iter()
                    .zip(case.shapes)
                    .map(|(x, shape)| Tensor::from_vec(x.clone(), shape, &device).unwrap())
                    .collect()
            };
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
                    // Fourth order: f32 rounding allows a step of 0.02, and the truncation error stays below it.
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
        let inputs: Vec<Tensor> = (case.shapes.iter().enumerate())
            .map(|(i, shape)| {
                let data =
                    values(shape.iter().product(), i).iter().map(|x| x + case.offset).collect();
                Tensor::from_vec(data, shape, &device).unwrap()
            })
            .collect();
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
        assert!((a - b).abs() < 1e-6 && (a - c).abs() < 1e-6);
    }
    for row in map.to_vec().unwrap().chunks_exact(n) {
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

#[test]
fn updates_follow_their_formulas() {
    use paint_tensor::AdamStep;
    let make = |x: &[f32]| Tensor::from_vec(x.to_vec(), [x.len()], &Device::cpu()).unwrap();
    let (p, g, v) = (make(&[1.0, -2.0]), make(&[0.5, 0.25]), make(&[0.1, -0.1]));
    let (plain, velocity) = p.sgd_step(&g, Some(&v), 0.1, 0.9, 0.01, false).unwrap();
    let (nesterov, _) = p.sgd_step(&g, Some(&v), 0.1, 0.9, 0.01, true).unwrap();
    let step = AdamStep {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
        decoupled: false,
        t: 1,
    };
    let (adam, m, second) = p.adam_step(&g, None, step).unwrap();
    for i in 0..2 {
        let at = |t: &Tensor| t.to_vec().unwrap()[i];
        let gradient = at(&g) + 0.01 * at(&p);
        let moved = 0.9 * at(&v) + gradient;
        assert!((at(&velocity) - moved).abs() < 1e-6);
        assert!((at(&plain) - (at(&p) - 0.1 * moved)).abs() < 1e-6);
        assert!((at(&nesterov) - (at(&p) - 0.1 * (gradient + 0.9 * moved))).abs() < 1e-6);
        // Fresh moments make a step of the sign of the gradient.
        assert!((at(&adam) - (at(&p) - 0.1 * at(&g).signum())).abs() < 1e-5);
        assert!(
            (at(&m) - 0.1 * at(&g)).abs() < 1e-7
                && (at(&second) - 0.001 * at(&g) * at(&g)).abs() < 1e-8
        );
    }
}
