//! The kernels that every GPU loads when it is opened, one structure for each file.

use std::path::Path;

use super::axes::{Axes, Broadcast};
use super::buffer::Kind;
use super::compile::Source;
use super::convolve::Conv;
use super::depthwise::Depthwise;
use super::driver::Gpu;
use super::elements::Packing;
use super::kernel::{Family, Kernel, Module, kernels};
use super::open::load;
use super::param::{Read, Write};
use super::pool::Window;
use super::rows::{Beside, Chunks};
use super::tokens::By;
use super::training::{Adam, Sgd, Sizes};
use super::{distort, elements, training};
use crate::Result;

/// A file of kernels that does not depend on the shape of a problem.
pub(super) trait File: Module {
    fn source() -> Source;
}

kernels! {
    /// `elementwise.cu`.
    struct Elementwise {
        fill: Kernel<(Write, f32, i64)>,
        unary: Kernel<(i32, f32, Read, Write, i64)>,
        binary: Family<(Kind, Kind), (i32, Read, Read, Write, i64)>,
        lerp: Family<Kind, (f32, Read, Read, Write, i64)>,
        restore: Kernel<(Read, Read, Write, i64)>,
        cast_to: Family<Kind, (Read, Write, i64)>,
        gelu: Family<Kind, (Read, Write, i64)>,
        gelu_backward: Family<Kind, (Read, Read, Write, i64)>,
        binary_broadcast: Family<Packing, (i32, Broadcast, Read, Read, Write, i64)>,
    }
}

impl File for Elementwise {
    fn source() -> Source {
        let text = include_str!("kernels/elementwise.cu");
        Source { name: "elementwise", text, defines: elements::elementwise_constants() }
    }
}

kernels! {
    /// `rowwise.cu`.
    struct Rowwise {
        layer_norm: Family<(Kind, Chunks), (Read, Read, Read, f32, Write, Write, i32, i32)>,
        layer_norm_backward:
            Family<(Beside, Chunks), (Read, Read, Read, Read, Read, Write, i32, i32)>,
        softmax: Kernel<(Read, Write, i32, i32)>,
        softmax_backward: Kernel<(Read, Read, Write, i32, i32)>,
        log_softmax: Kernel<(Read, Write, i32, i32)>,
        log_softmax_backward: Kernel<(Read, Read, Write, i32, i32)>,
        l2_normalize: Kernel<(Read, Write, Write, i32, i32)>,
        l2_normalize_backward: Kernel<(Read, Read, Read, Write, i32, i32)>,
    }
}

impl File for Rowwise {
    fn source() -> Source {
        let text = include_str!("kernels/rowwise.cu");
        Source { name: "rowwise", text, defines: Vec::new() }
    }
}

kernels! {
    /// `layout.cu`.
    struct Layout {
        sum_columns: Family<Kind, (Read, Write, i32, i32, i32)>,
        sum_rows: Family<Kind, (Read, Write, i64)>,
        layer_norm_affine: Family<Beside, (Read, Read, Read, Write, i32, i32, i32)>,
        permute: Family<Packing, (Axes, Read, Write, i64)>,
        turn: Kernel<(Read, Write, i32, i32)>,
        copy_rows: Family<(Packing, (Kind, Kind)), (Read, i64, i64, Write, i64, i64, i64, i64)>,
        gather: Kernel<(Read, Read, Write, i32, i64)>,
        scatter_add: Kernel<(Read, Read, Write, i32, i32, i64)>,
        copy_all: Kernel<(Read,)>,
    }
}

impl File for Layout {
    fn source() -> Source {
        let text = include_str!("kernels/layout.cu");
        Source { name: "layout", text, defines: elements::layout_constants() }
    }
}

kernels! {
    /// `fp8.cu`.
    struct Fp8 {
        round_input: Kernel<(Read, Write, i64)>,
        largest: Kernel<(Read, Write, i64)>,
        round_weight: Kernel<(Read, Read, Write, Write, i64)>,
    }
}

impl File for Fp8 {
    fn source() -> Source {
        Source { name: "fp8", text: include_str!("kernels/fp8.cu"), defines: Vec::new() }
    }
}

kernels! {
    /// `planes.cu`.
    struct Planes {
        channel_moments: Kernel<(Read, Write, Write, i32, i32, i32)>,
        channel_affine: Kernel<(Read, Read, Read, Read, i32, Write, i32, i32, i64)>,
        channel_gradient_sums:
            Kernel<(Read, Read, Read, Read, Read, Write, Write, i32, i32, i32)>,
        channel_combine:
            Kernel<(Read, Read, Read, Read, Read, Read, Read, Write, i32, i32, i64)>,
        max_pool: Kernel<(Window, Read, Write, Write, i64)>,
        max_pool_backward: Kernel<(Window, Read, Read, Write, i64)>,
        avg_pool: Kernel<(Window, Read, Write, i64)>,
        avg_pool_backward: Kernel<(Window, Read, Write, i64)>,
        columns: Kernel<(Conv, Read, Write, i64)>,
        columns_backward: Kernel<(Conv, Read, Write, i64)>,
        depthwise: Kernel<(Depthwise, Read, Read, Write, i64)>,
        depthwise_backward_weight: Kernel<(Depthwise, Read, Read, Write, i32, i64)>,
    }
}

impl File for Planes {
    fn source() -> Source {
        Source { name: "planes", text: include_str!("kernels/planes.cu"), defines: Vec::new() }
    }
}

kernels! {
    /// `tokens.cu`.
    struct Tokens {
        align: Family<Kind, (By, Read, Read, Read, Write, Write, Write, i32, i32)>,
        token_moments: Family<Kind, (Read, Write, Write, i32, i32, i32)>,
    }
}

impl File for Tokens {
    fn source() -> Source {
        let text = include_str!("kernels/tokens.cu");
        Source { name: "tokens", text, defines: elements::layout_constants() }
    }
}

kernels! {
    /// `distort.cu`.
    struct Distort {
        distort_colors: Kernel<(Read, Read, Write, i32)>,
        distort_places: Kernel<(Read, Read, Read, f32, Write, i32, i32, i64)>,
    }
}

impl File for Distort {
    fn source() -> Source {
        let text = concat!(include_str!("kernels/colour.cuh"), include_str!("kernels/distort.cu"));
        Source { name: "distort", text, defines: distort::constants() }
    }
}

kernels! {
    /// `training.cu`.
    struct Training {
        compose: Kernel<(Read, Read, Write, Sizes)>,
        gradient_squares: Kernel<(Read, Write)>,
        clip_factor: Kernel<(Read, i32, f32, Write)>,
        sgd_all: Kernel<(Read, Read, Sgd)>,
        adam_all: Kernel<(Read, Read, Adam)>,
        add_scaled: Family<(Packing, Kind), (Read, Read, Read, Write, i32, i64)>,
    }
}

impl File for Training {
    fn source() -> Source {
        let text = concat!(include_str!("kernels/colour.cuh"), include_str!("kernels/training.cu"));
        Source { name: "training", text, defines: training::tones() }
    }
}

macro_rules! loaded {
    ($(#[$doc:meta])* struct $all:ident { $($field:ident: $file:ty,)* }) => {
        $(#[$doc])*
        pub(super) struct $all {
            $(pub(super) $field: $file,)*
        }

        impl $all {
            /// Compiles and loads every file, each on a thread of its own.
            pub(super) fn load(gpu: &Gpu, cache: Option<&Path>) -> Result<Self> {
                std::thread::scope(|scope| {
                    $(let $field = scope.spawn(|| load(gpu, &<$file as File>::source(), 0, cache));)*
                    Ok(Self { $($field: $field.join().expect("compiling does not panic")?,)* })
                })
            }

            #[cfg(test)]
            pub(super) fn signatures() -> Vec<(Source, super::kernel::Signatures)> {
                vec![$((<$file as File>::source(), <$file as Module>::signatures()),)*]
            }
        }
    };
}

loaded! {
    /// Every kernel that does not depend on the shape of a problem.
    struct Kernels {
        elementwise: Elementwise,
        rowwise: Rowwise,
        layout: Layout,
        fp8: Fp8,
        planes: Planes,
        tokens: Tokens,
        distort: Distort,
        training: Training,
    }
}
