//! What a transformer does, at sizes with whole and broken tiles.

use paint_tensor::{Result, Tensor};

use crate::cases::{Case, case, mlp};

/// `compact` on every input, as a transformer sees them.
fn compact(x: &[Tensor]) -> Result<Vec<Tensor>> {
    x.iter().map(Tensor::compact).collect()
}

pub(super) const LARGE: &[Case] = &[
    case("linear of tokens", &[&[3, 67, 192], &[576, 192], &[576]], |x| {
        compact(x)?[0].linear(&x[1], Some(&x[2]))
    }),
    case("linear without multiples of 8", &[&[37, 30], &[10, 30], &[10]], |x| {
        compact(x)?[0].linear(&x[1], Some(&x[2]))
    }),
    case("mlp of tokens", &[&[2, 65, 192], &[768, 192], &[768], &[192, 768], &[192]], |x| {
        let narrow = compact(x)?;
        narrow[0].mlp(mlp(x), Some(&narrow[0]))
    }),
    case("mlp without multiples of 8", &[&[37, 30], &[90, 30], &[90], &[30, 90], &[30]], |x| {
        compact(x)?[0].mlp(mlp(x), None)
    }),
    case("linear_residual of tokens", &[&[2, 65, 64], &[192, 64], &[192], &[2, 65, 192]], |x| {
        let narrow = compact(x)?;
        narrow[0].linear_residual(&x[1], Some(&x[2]), &narrow[3])
    }),
    case("layer_norm of 192", &[&[131, 192], &[192], &[192]], |x| {
        compact(x)?[0].layer_norm(&x[1], &x[2], 1e-6)
    }),
    case("layer_norm of 768", &[&[70, 768], &[768], &[768]], |x| {
        compact(x)?[0].layer_norm(&x[1], &x[2], 1e-6)
    }),
    case("layer_norm of 192 beside a residual", &[&[131, 192], &[192], &[192]], |x| {
        let narrow = compact(x)?;
        narrow[0].layer_norm(&x[1], &x[2], 1e-6)?.add(&narrow[0])
    }),
    case("layer_norm of 1030 beside a residual", &[&[3, 1030], &[1030], &[1030]], |x| {
        let narrow = compact(x)?;
        narrow[0].layer_norm(&x[1], &x[2], 1e-6)?.add(&narrow[0])
    }),
    case("layer_norm of 64 by parts of others", &[&[9, 64], &[65], &[67]], |x| {
        compact(x)?[0].layer_norm(&x[1].slice(0, 1, 64)?, &x[2].slice(0, 3, 64)?, 1e-6)
    }),
    case("sum of many", &[&[40, 1024]], |x| x[0].sum_all()),
    case("layer_norm of 1030", &[&[300, 1030], &[1030], &[1030]], |x| {
        compact(x)?[0].layer_norm(&x[1], &x[2], 1e-6)
    }),
    case("attention, head 64", &[&[2, 199, 576]], |x| compact(x)?[0].attention(3)),
    // More heads than a GPU has multiprocessors: a block takes all turns of one.
    case("attention, head 64, many heads", &[&[23, 135, 576]], |x| compact(x)?[0].attention(3)),
    case("attention, head 64, few tokens", &[&[2, 7, 192]], |x| compact(x)?[0].attention(1)),
    case("attention, head 64, 41 tokens", &[&[2, 41, 192]], |x| compact(x)?[0].attention(1)),
    case("attention, head 64, 64 tokens", &[&[2, 64, 192]], |x| compact(x)?[0].attention(1)),
    case("attention, head 64, 66 tokens", &[&[3, 66, 576]], |x| compact(x)?[0].attention(3)),
    case("attention, head 64, 165 tokens", &[&[1, 165, 384]], |x| compact(x)?[0].attention(2)),
    case("attention, head 64, as many tokens as fit at once", &[&[1, 224, 384]], |x| {
        compact(x)?[0].attention(2)
    }),
    case("attention, head 64, one token more", &[&[1, 225, 384]], |x| compact(x)?[0].attention(2)),
    case(
        "attention, all scores far below zero",
        &[&[2, 66, 63], &[2, 66, 63], &[2, 66, 64]],
        |x| {
            // One channel, exact in every precision, takes 128 off each score.
            let far = |value| Tensor::full([2, 66, 1], value, x[0].device());
            let rows = [&far(256.0)?, &x[0], &far(-4.0)?, &x[1], &x[2]];
            compact(&[Tensor::concat(&rows, 2)?])?[0].attention(1)
        },
    )
    // Sums of terms of 1024 that end at 128 / 8: a unit in their last place is 16 times that of a score of one, and the
    // exponential makes it a relative error. Measured: 1.4 times the tolerance of f32.
    .sensitivity(2.0),
    case(
        "attention, values and their gradients far from one",
        &[&[2, 66, 128], &[2, 66, 64]],
        |x| {
            let far = 2.0_f32.powi(40);
            let rows = compact(&[Tensor::concat(&[&x[0], &x[1].scale(1.0 / far)?], 2)?])?;
            rows[0].attention(1)?.scale(far)
        },
    ),
    case("attention of nothing but zeros", &[&[2, 66, 192]], |x| {
        compact(&[x[0].scale(0.0)?])?[0].attention(1)
    }),
    case("attention whose gradient is zero", &[&[2, 66, 192]], |x| {
        compact(x)?[0].attention(1)?.scale(0.0)
    }),
    case("cross_attention of as many", &[&[2, 66, 128], &[2, 66, 256]], |x| {
        let x = compact(x)?;
        x[0].cross_attention(&x[1], 2)
    }),
    case("attention, head 32", &[&[2, 65, 192]], |x| compact(x)?[0].attention(2)),
    case("attention, head 12", &[&[2, 70, 72]], |x| compact(x)?[0].attention(2)),
    case("attention, head 128", &[&[1, 66, 384]], |x| compact(x)?[0].attention(1)),
    case("attention with large scores", &[&[2, 130, 192]], |x| {
        compact(&[x[0].scale(6.0)?])?[0].attention(1)
    })
    // Scores have a standard deviation of 12, and the rounding of their factors grows with it before the exponential
    // makes it a relative error. Measured: 3.4 times the tolerance in tf32, 2.4 times in bf16.
    .sensitivity(4.0),
    case("cross_attention, head 64", &[&[3, 3, 128], &[3, 199, 256]], |x| {
        let x = compact(x)?;
        x[0].cross_attention(&x[1], 2)
    }),
    case("add_scaled of tokens", &[&[3, 65, 192], &[3, 65, 192]], |x| {
        let (factors, x) =
            (Tensor::from_vec(vec![1.1, 0.0, 1.1], [3], x[0].device())?, compact(x)?);
        x[0].add_scaled(&x[1], &factors)
    }),
    case("slices and joins of tokens", &[&[3, 9, 16], &[3, 2, 16]], |x| {
        let x = compact(x)?;
        Tensor::concat(&[&x[1], &x[0].slice(1, 0, 4)?], 1)
    }),
    case("sums over many rows", &[&[3, 700, 40]], |x| compact(x)?[0].sum(1)),
    case("sums over long rows", &[&[5, 3000]], |x| compact(x)?[0].sum(1)),
    case("products of elements", &[&[5, 33], &[5, 33]], |x| {
        let x = compact(x)?;
        x[0].mul(&x[1])
    }),
];

/// More than 4e9 operations, with several tiles for each multiprocessor and broken ones: 2,570 rows, 260 deep.
pub(super) const LARGEST: &[Case] = &[case(
    "mlp of many tokens, with and without a gradient",
    &[&[2570, 260], &[3072, 260], &[3072], &[260, 3072], &[260]],
    |x| {
        let frozen: Vec<Tensor> = x.iter().map(Tensor::detach).collect();
        x[0].mlp(mlp(x), None)?.add(&frozen[0].mlp(mlp(&frozen), None)?)
    },
)];
