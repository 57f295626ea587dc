//! The tables of operations that every backend is tested on.
//!
//! A row's name begins with the method's, and every public method of `src/op` must have a row.

use paint_tensor::{
    Alignment, BLUR_TAPS, BatchNorm, BnMode, ColorOp, Conv2d, Device, Distortion, Mlp, Moments,
    Noise, Result, Tensor, Windows,
};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) shapes: &'static [&'static [usize]],
    /// Added to the random inputs in [-1, 1], to keep logarithms and roots in their domain.
    pub(crate) offset: f32,
    pub(crate) run: fn(&[Tensor]) -> Result<Tensor>,
    pub(crate) nan: Nan,
    /// How many times the rounding of a plain sum shows in the result: 1, unless the row says why not.
    pub(crate) sensitivity: f32,
}

/// What becomes of a NaN among the inputs of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nan {
    /// It reaches every result and gradient that its element can change.
    Passes,
    /// It reaches the result but not the gradient, for this reason.
    NotInGradient(&'static str),
    /// It reaches nothing, for this reason.
    Stops(&'static str),
}

impl Case {
    /// The row with results that amplify rounding.
    #[cfg(feature = "cuda")]
    pub(crate) const fn sensitivity(self, sensitivity: f32) -> Self {
        Self { sensitivity, ..self }
    }

    const fn nan(self, nan: Nan) -> Self {
        Self { nan, ..self }
    }

    /// The inputs of this case.
    pub(crate) fn data(&self) -> Vec<Vec<f32>> {
        let input = |(i, shape): (usize, &&[usize])| {
            values(shape.iter().product(), i).iter().map(|x| x + self.offset).collect()
        };
        self.shapes.iter().enumerate().map(input).collect()
    }

    /// Tensors of these numbers.
    pub(crate) fn tensors(&self, data: &[Vec<f32>], device: &Device) -> Vec<Tensor> {
        let tensor = |(data, shape): (&Vec<f32>, &&[usize])| {
            Tensor::from_vec(data.clone(), shape, device).expect("the shape fits the data")
        };
        data.iter().zip(self.shapes).map(tensor).collect()
    }
}

pub(crate) const fn case(
    name: &'static str,
    shapes: &'static [&'static [usize]],
    run: fn(&[Tensor]) -> Result<Tensor>,
) -> Case {
    Case { name, shapes, offset: 0.0, run, nan: Nan::Passes, sensitivity: 1.0 }
}

const fn positive(
    name: &'static str,
    shapes: &'static [&'static [usize]],
    run: fn(&[Tensor]) -> Result<Tensor>,
) -> Case {
    Case { name, shapes, offset: 2.0, run, nan: Nan::Passes, sensitivity: 1.0 }
}

/// Operations with a gradient.
pub(crate) const CASES: &[Case] = &[
    case("linear", &[&[2, 3, 5], &[4, 5], &[4]], |x| x[0].linear(&x[1], Some(&x[2]))),
    case("linear without bias", &[&[6, 5], &[33, 5]], |x| x[0].linear(&x[1], None)),
    case("mlp", &[&[3, 5], &[40, 5], &[40], &[4, 40], &[4]], |x| x[0].mlp(mlp(x), None)),
    case("mlp with a residual", &[&[2, 3, 5], &[7, 5], &[7], &[6, 7], &[6], &[2, 3, 6]], |x| {
        x[0].mlp(mlp(x), Some(&x[5]))
    }),
    case("linear_residual", &[&[2, 3, 5], &[4, 5], &[4], &[2, 3, 4]], |x| {
        x[0].linear_residual(&x[1], Some(&x[2]), &x[3])
    }),
    case("layer", &[&[2, 3, 5], &[4, 5], &[4], &[2, 3, 4]], |x| {
        x[0].layer(&x[1], Some(&x[2]), Some(&x[3]))
    }),
    case("add_scaled", &[&[3, 2, 5], &[3, 2, 5]], |x| {
        x[0].add_scaled(&x[1], &Tensor::from_vec(vec![0.0, 1.25, 1.0], [3], x[0].device())?)
    }),
    case("matmul", &[&[2, 3, 4, 5], &[2, 3, 5, 6]], |x| x[0].matmul(&x[1])),
    case("matmul with a shared right side", &[&[2, 3, 5], &[5, 4]], |x| x[0].matmul(&x[1])),
    case("layer_norm", &[&[3, 2, 18], &[18], &[18]], |x| x[0].layer_norm(&x[1], &x[2], 1e-6)),
    case("layer_norm beside a residual", &[&[3, 2, 18], &[18], &[18]], |x| {
        x[0].layer_norm(&x[1], &x[2], 1e-6)?.add(&x[0])
    }),
    case("l2_normalize", &[&[4, 7]], |x| x[0].l2_normalize()),
    case("attention", &[&[2, 5, 24]], |x| x[0].attention(2)),
    case("cross_attention", &[&[2, 3, 8], &[2, 5, 16]], |x| x[0].cross_attention(&x[1], 2)),
    case("attention_with_map, output", &[&[2, 4, 24]], |x| Ok(x[0].attention_with_map(2)?.0)),
    case("attention_with_map, map", &[&[2, 4, 24]], |x| Ok(x[0].attention_with_map(2)?.1)),
    case("window_attention", &[&[2, 6, 12], &[2, 3, 3]], |x| {
        x[0].window_attention(2, &x[1], &windows(x[0].device())?)
    }),
    case("window_attention_in_steps", &[&[2, 6, 12], &[2, 3, 3]], |x| {
        x[0].window_attention_in_steps(2, &x[1], &windows(x[0].device())?)
    }),
    case("gelu", &[&[5, 7]], |x| x[0].scale(3.0)?.gelu()),
    case("gelu_tanh", &[&[5, 7]], |x| x[0].scale(3.0)?.gelu_tanh()),
    case("quick_gelu", &[&[5, 7]], |x| x[0].scale(3.0)?.quick_gelu()),
    case("silu", &[&[5, 7]], |x| x[0].scale(3.0)?.silu()),
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
    case("compact", &[&[2, 6]], |x| x[0].compact()),
    case("permute", &[&[2, 3, 4, 5]], |x| x[0].permute(&[2, 0, 3, 1])),
    case("transpose", &[&[2, 3, 4]], |x| x[0].transpose(0, 2)),
    case("transpose of a matrix", &[&[35, 33]], |x| x[0].transpose(0, 1)),
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
    case("conv2d to rows of four", &[&[2, 3, 4, 8], &[5, 3, 3, 3]], |x| conv(x, 1, 1, 1)),
    case("conv2d to rows of four in groups", &[&[2, 4, 6, 16], &[6, 2, 3, 3]], |x| {
        conv(x, 2, 1, 2)
    }),
    case("conv2d of single pixels, all of them", &[&[2, 3, 5, 4], &[10, 3, 1, 1]], |x| {
        conv(x, 1, 0, 1)
    }),
    case("conv2d by channel", &[&[1, 3, 4, 5], &[3, 1, 2, 2]], |x| conv(x, 1, 0, 3)),
    case("depthwise", &[&[2, 4, 5, 3], &[3, 3, 3]], |x| x[0].depthwise(&x[1])),
    case("depthwise, kernels wider than the image", &[&[1, 2, 3, 2], &[7, 7, 2]], |x| {
        x[0].depthwise(&x[1])
    }),
    case("depthwise, many channels", &[&[1, 2, 2, 35], &[3, 3, 35]], |x| x[0].depthwise(&x[1])),
    case("batch_norm, running", &[&[3, 2, 2, 3], &[2], &[2]], |x| norm(x, BnMode::Running)),
    case("batch_norm, batch", &[&[3, 2, 2, 3], &[2], &[2]], |x| norm(x, BnMode::Batch)),
    case("batch_norm, mixed", &[&[3, 2, 2, 3], &[2], &[2]], |x| {
        norm(x, BnMode::Mixed { batch: 0.3 })
    }),
    case("batch_norm without planes", &[&[5, 3], &[3], &[3]], |x| norm(x, BnMode::Batch)),
    case("batch_norm_relu, batch", &[&[3, 2, 2, 3], &[2], &[2]], |x| {
        norm_relu(x, BnMode::Batch, None)
    }),
    case("batch_norm_relu, running", &[&[3, 2, 2, 3], &[2], &[2]], |x| {
        norm_relu(x, BnMode::Running, None)
    }),
    case("batch_norm_relu of a sum", &[&[3, 2, 2, 3], &[2], &[2], &[3, 2, 2, 3]], |x| {
        norm_relu(x, BnMode::Batch, Some(&x[3]))
    }),
    case("batch_norm_relu with a frozen scale", &[&[3, 2, 2, 3], &[2]], |x| {
        let scale = Tensor::from_vec(vec![0.7, -1.3], [2], x[0].device())?;
        norm_relu(&[x[0].clone(), scale, x[1].clone()], BnMode::Running, None)
    }),
    case("group_norm", &[&[2, 6, 2, 3], &[6], &[6]], |x| x[0].group_norm(2, &x[1], &x[2], 1e-5)),
    case("group_norm of one group", &[&[2, 3, 4], &[3], &[3]], |x| {
        x[0].group_norm(1, &x[1], &x[2], 1e-5)
    }),
    case("max_pool", &[&[2, 2, 5, 7]], |x| spread(&x[0])?.max_pool(3, 2, 1)).nan(
        Nan::NotInGradient("the gradient goes to the place of the largest element, whatever it is"),
    ),
    case("avg_pool", &[&[2, 2, 5, 7]], |x| x[0].avg_pool(3, 2)),
    case("avg_pool of every other pixel", &[&[2, 2, 5, 4]], |x| x[0].avg_pool(1, 2)),
    case("global_avg_pool", &[&[2, 3, 2, 5]], |x| x[0].global_avg_pool()),
    case("unfold_patches of a non-square image", &[&[2, 3, 4, 6]], |x| x[0].unfold_patches(2)),
    case("token_moments", &[&[2, 5, 3]], |x| {
        let [mean, variance] = x[0].token_moments(2)?;
        Tensor::concat(&[&mean, &variance], 0)
    }),
    case("with_first_tokens", &[&[2, 4, 3], &[2, 2, 3]], |x| x[0].clone().with_first_tokens(&x[1])),
];

/// Operations without a gradient.
pub(crate) const PLAIN: &[Case] = &[
    case("gram", &[&[7, 5]], |x| x[0].gram()),
    case("lerp", &[&[2, 5], &[2, 5]], |x| x[0].lerp(&x[1], 0.3)),
    case("restore", &[&[2, 5], &[2, 5]], |x| x[0].restore(&x[1], &[9, 0, 3])),
    case("distort", &[&[2, 3, 6, 5]], |x| {
        x[0].scale(0.4)?.add_scalar(0.5)?.distort(&[look(0), look(1)], Noise::Normal(0.01))
    }),
    case("batch_norm_with_moments, mean", &[&[3, 2, 2, 3], &[2], &[2]], |x| {
        moments(x)?.mean.add(&moments(x)?.variance)
    }),
    case("batch_norm of several batches, mixed", &[&[6, 2, 2, 3], &[2], &[2]], |x| {
        with_norm(x, BnMode::Mixed { batch: 0.3 }, |norm| x[0].batch_norm(&in_threes(norm)))
    }),
    case("batch_norm_relu of several batches", &[&[6, 2, 2, 3], &[2], &[2], &[6, 2, 2, 3]], |x| {
        let add = |norm: &BatchNorm| x[0].batch_norm_relu(&in_threes(norm), Some(&x[3]));
        Ok(with_norm(x, BnMode::Batch, add)?.0)
    }),
    case("aligned", &[&[4, 3], &[2, 3], &[2, 3]], |x| {
        let positive = |x: &Tensor| x.mul(x)?.add_scalar(0.5);
        let by =
            Alignment { share: 0.3, rows: 9.0, target_rows: 30.0, shrinkage: 2.0, stretch: 10.0 };
        let found = x[0].aligned(Some(&positive(&x[1])?), &positive(&x[2])?, &by)?;
        let parts = [(found.rows, 12), (found.running, 6), (found.weight, 1)];
        let flat = |(part, len): &(Tensor, usize)| part.reshape([*len]);
        Tensor::concat(
            &parts.iter().map(flat).collect::<Result<Vec<_>>>()?.iter().collect::<Vec<_>>(),
            0,
        )
    }),
    case("argmax", &[&[3, 5]], |x| {
        let places = x[0].argmax()?.into_iter().map(|place| place as f32).collect();
        Tensor::from_vec(places, [3], x[0].device())
    })
    .nan(Nan::Stops("a place is a whole number; a NaN is larger than nothing")),
];

/// A look with every kind of distortion.
pub(crate) fn look(i: usize) -> Distortion {
    let mut colors = ColorOp::ALL.map(|op| (op, 1.0 + 0.1 * (i + op as usize) as f32));
    colors[ColorOp::Hue as usize].1 = 0.04;
    colors.rotate_left(i);
    Distortion {
        colors,
        pad: if i.is_multiple_of(2) { [10, 6] } else { [0, 0] },
        matrix: [0.95, 0.2, -3.5, -0.2, 0.95, 4.25],
        blur: [0.01, 0.15, 0.68, 0.15, 0.01] as [f32; BLUR_TAPS],
        flip: i.is_multiple_of(3),
        seed: 0x1234_5678_9abc_def0 + i as u64,
    }
}

pub(crate) fn mlp(x: &[Tensor]) -> Mlp<'_> {
    Mlp { fc1: (&x[1], &x[2]), fc2: (&x[3], &x[4]) }
}

fn conv(x: &[Tensor], stride: usize, padding: usize, groups: usize) -> Result<Tensor> {
    x[0].conv2d(&x[1], Conv2d { stride, padding, groups })
}

pub(crate) fn norm(x: &[Tensor], mode: BnMode) -> Result<Tensor> {
    with_norm(x, mode, |norm| x[0].batch_norm(norm))
}

/// Of elements that lie on both sides of the kink, further from it than a difference moves them.
fn norm_relu(x: &[Tensor], mode: BnMode, residual: Option<&Tensor>) -> Result<Tensor> {
    let sides = (0..x[0].elem_count()).map(|i| if i * 5 % 7 < 3 { -2.0 } else { 2.0 }).collect();
    let sides = Tensor::from_vec(sides, x[0].shape(), x[0].device())?;
    let apart = x[0].scale(0.1)?.add(&sides)?;
    let near = [apart, x[1].scale(0.1)?.add_scalar(1.0)?, x[2].scale(0.1)?];
    let residual = residual.map(|residual| residual.scale(0.1)).transpose()?;
    let (y, _) = with_norm(&near, mode, |norm| near[0].batch_norm_relu(norm, residual.as_ref()))?;
    Ok(y)
}

fn moments(x: &[Tensor]) -> Result<Moments> {
    let both = with_norm(x, BnMode::Batch, |norm| x[0].batch_norm_with_moments(norm));
    Ok(both?.1.expect("the batch's moments are used"))
}

fn with_norm<T>(
    x: &[Tensor],
    mode: BnMode,
    run: impl FnOnce(&BatchNorm) -> Result<T>,
) -> Result<T> {
    let c = x[1].elem_count();
    let running = |seed| Tensor::from_vec(values(c, seed), [c], x[1].device());
    let (running_mean, running_var) = (running(5)?, running(6)?.add_scalar(1.5)?);
    run(&BatchNorm {
        scale: &x[1],
        shift: &x[2],
        running_mean: &running_mean,
        running_var: &running_var,
        eps: 1e-5,
        mode,
        batch_size: None,
    })
}

/// The same for batches of three rows.
fn in_threes<'a>(norm: &BatchNorm<'a>) -> BatchNorm<'a> {
    BatchNorm { batch_size: Some(3), ..*norm }
}

/// Six rows in two windows, with a mask.
fn windows(device: &Device) -> Result<Windows> {
    let mask = Tensor::from_vec(values(18, 8), [2, 3, 3], device)?;
    Windows::new(vec![4, 0, 3, 1, 5, 2], 3, Some(mask))
}

/// Elements further apart than a difference moves them, in no order: no maximum changes its place.
fn spread(x: &Tensor) -> Result<Tensor> {
    let steps = (0..x.elem_count()).map(|i| (i * 4 % 11) as f32 * 3.0).collect();
    x.add(&Tensor::from_vec(steps, x.shape(), x.device())?)
}

/// A fixed sequence in [-1, 1].
pub(crate) fn values(len: usize, seed: usize) -> Vec<f32> {
    let mut state = (seed as u32).wrapping_mul(2_654_435_761).wrapping_add(97);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// The loss of a case: a fixed random projection of its result, so that no part of a gradient can hide.
pub(crate) fn projected(case: &Case, inputs: &[Tensor]) -> Result<Tensor> {
    projected_by(case, inputs, |_| ())
}

/// The same with weights that `change` has changed.
pub(crate) fn projected_by(
    case: &Case,
    inputs: &[Tensor],
    change: impl FnOnce(&mut [f32]),
) -> Result<Tensor> {
    let out = (case.run)(inputs)?;
    let mut weights = values(out.elem_count(), 77);
    change(&mut weights);
    out.mul(&Tensor::from_vec(weights, out.shape(), out.device())?)?.sum_all()
}
