//! Opening a GPU: the devices of this machine, and the kernels that every one of them needs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::arena::Arena;
use super::buffer::{Buffer, Kind};
use super::compile::{self, Source};
use super::driver::{self, Gpu, Kernels};
use super::matmul::{self, Products};
use super::{Cuda, rows, training};
use crate::backend::{DeviceInfo, Precision};
use crate::{Error, Result};

/// One backend for each GPU and precision, for as long as the process lives.
pub(super) fn open(name: &str, precision: Precision) -> Result<Arc<Cuda>> {
    type Opened = HashMap<(i32, Precision), Arc<Cuda>>;
    static OPENED: OnceLock<Mutex<Opened>> = OnceLock::new();
    let wrong = |why: String| Error::Device { name: name.to_owned(), why };
    let number = name.strip_prefix("cuda").and_then(|rest| match rest {
        "" => Some(0),
        _ => rest.strip_prefix(':')?.parse::<i32>().ok(),
    });
    let ordinal = number.ok_or_else(|| wrong("a GPU is named cuda:0, cuda:1, ...".to_owned()))?;
    let mut opened =
        OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cuda) = opened.get(&(ordinal, precision)) {
        return Ok(Arc::clone(cuda));
    }
    let found = driver::devices().map_err(wrong)?;
    if ordinal < 0 || ordinal as usize >= found.len() {
        return Err(wrong(format!("this machine has {} GPU(s)", found.len())));
    }
    let cuda = Arc::new(Cuda::new(ordinal, precision)?);
    opened.insert((ordinal, precision), Arc::clone(&cuda));
    Ok(cuda)
}

pub(super) fn devices() -> Vec<DeviceInfo> {
    match driver::devices() {
        Ok(found) => found
            .iter()
            .enumerate()
            .map(|(i, gpu)| DeviceInfo {
                name: format!("cuda:{i}"),
                what: format!(
                    "{}, {:.0} GiB, compute capability {}.{}",
                    gpu.name,
                    gpu.total_memory as f64 / f64::from(1 << 30),
                    gpu.capability.0,
                    gpu.capability.1
                ),
            })
            .collect(),
        Err(why) => {
            vec![DeviceInfo { name: "cuda".to_owned(), what: format!("not usable: {why}") }]
        }
    }
}

/// The name of a kernel and the module it is in: `extern "C"` names are unique over all files.
fn kernel_names(text: &str, expanded: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = text
        .split("extern \"C\" __global__ void ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .filter(|name| !name.contains('#'))
        .map(str::to_owned)
        .collect();
    names.extend(expanded.iter().map(|&name| name.to_owned()));
    names
}

impl Cuda {
    fn new(ordinal: i32, precision: Precision) -> Result<Self> {
        let gpu = Arc::new(Gpu::open(ordinal)?);
        let cache = compile::cache_folder();
        let sources = [
            ("elementwise", include_str!("kernels/elementwise.cu"), ELEMENTWISE),
            ("rowwise", include_str!("kernels/rowwise.cu"), rows::ROWWISE),
            ("layout", include_str!("kernels/layout.cu"), LAYOUT),
            ("planes", include_str!("kernels/planes.cu"), &[]),
            (
                "distort",
                concat!(include_str!("kernels/colour.cuh"), include_str!("kernels/distort.cu")),
                &[],
            ),
            (
                "training",
                concat!(include_str!("kernels/colour.cuh"), include_str!("kernels/training.cu")),
                training::KERNELS,
            ),
        ];
        let mut kernels = Kernels::default();
        let modules = std::thread::scope(|scope| {
            let tasks = sources.map(|(name, text, expanded)| {
                let (gpu, cache) = (&gpu, cache.as_deref());
                scope.spawn(move || {
                    let source = Source { name, text, defines: Vec::new() };
                    load(gpu, &source, &kernel_names(text, expanded), 0, cache)
                })
            });
            tasks.map(|task| task.join().expect("compiling does not panic"))
        });
        for module in modules {
            kernels.extend(module?);
        }
        let arena = Arena::new(Arc::clone(&gpu));
        let workspace =
            Buffer::new(arena.take(matmul::WORKSPACE)?, matmul::WORKSPACE / 4, Kind::F32);
        Ok(Self {
            ordinal,
            precision,
            gpu,
            arena,
            kernels,
            products: Products::new()?,
            workspace,
            cache,
            attention: Mutex::default(),
            shared: Mutex::default(),
        })
    }
}

/// Loads a module; an image that the driver refuses (a damaged cache) is compiled anew.
pub(super) fn load(
    gpu: &Gpu,
    source: &Source,
    names: &[String],
    shared: u32,
    cache: Option<&Path>,
) -> Result<Kernels> {
    let file = source.file(gpu.properties.capability, cache);
    gpu.load(&file.image()?, names, shared)
        .or_else(|_| gpu.load(&file.fresh_image()?, names, shared))
}

/// Kernels whose names come out of macros.
const ELEMENTWISE: &[&str] = &[
    "binary_f32_f32",
    "binary_f32_bf16",
    "binary_bf16_f32",
    "binary_bf16_bf16",
    "cast_f32_bf16",
    "cast_bf16_f32",
    "gelu_f32",
    "gelu_bf16",
    "gelu_backward_f32",
    "gelu_backward_bf16",
    "lerp_f32",
    "lerp_bf16",
];
const LAYOUT: &[&str] = &[
    "layer_norm_affine_f32_f32",
    "layer_norm_affine_bf16_f32",
    "layer_norm_affine_bf16_bf16",
    "copy_rows_f32_f32",
    "copy_rows_f32_bf16",
    "copy_rows_bf16_bf16",
];
