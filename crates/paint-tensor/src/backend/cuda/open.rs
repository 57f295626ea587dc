//! Opening a GPU: which ones this machine has, and what each needs before it can compute.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Cuda;
use super::arena::{Arena, Supply};
use super::buffer::{Buffer, Kind};
use super::compile::{self, Source, Target};
use super::driver::{self, Gpu, Properties};
use super::kernel::Module;
use super::matmul::{self, Products};
use super::modules::Kernels;
use crate::backend::{DeviceInfo, Precision};
use crate::{Error, Result, lane};

/// The backend of a GPU and precision in the lane of this thread; there is one of each for as long as the process
/// lives.
pub(super) fn open(name: &str, precision: Precision) -> Result<Arc<Cuda>> {
    type Opened = HashMap<(i32, Precision), BTreeMap<usize, Arc<Cuda>>>;
    static OPENED: OnceLock<Mutex<Opened>> = OnceLock::new();
    let wrong = |why: String| Error::Device { name: name.to_owned(), why };
    let number = name.strip_prefix("cuda").and_then(|rest| match rest {
        "" => Some(0),
        _ => rest.strip_prefix(':')?.parse::<i32>().ok(),
    });
    if precision == Precision::Int8 {
        return Err(wrong("a GPU computes in f32, tf32, bf16 or fp8, not in int8".to_owned()));
    }
    let ordinal = number.ok_or_else(|| wrong("a GPU is named cuda:0, cuda:1, ...".to_owned()))?;
    let mut opened =
        OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let lanes = opened.entry((ordinal, precision)).or_default();
    if let Some(cuda) = lanes.get(&lane::current()) {
        return Ok(Arc::clone(cuda));
    }
    let found = driver::devices().map_err(wrong)?;
    let gpu = usize::try_from(ordinal).ok().and_then(|ordinal| found.get(ordinal));
    let gpu = gpu.ok_or_else(|| wrong(format!("this machine has {} GPU(s)", found.len())))?;
    if let Some(why) = too_old(gpu).or_else(|| lacks_fp8(gpu, precision)) {
        return Err(wrong(why));
    }
    // Lanes choose the algorithms of products together, so that each gives the same bits.
    let products = lanes.values().next().map(|other| Arc::clone(&other.products));
    let products = products.map_or_else(|| Products::new().map(Arc::new), Ok)?;
    let cuda = Arc::new(Cuda::new(ordinal, precision, products)?);
    lanes.insert(lane::current(), Arc::clone(&cuda));
    Ok(cuda)
}

pub(super) fn devices() -> Vec<DeviceInfo> {
    match driver::devices() {
        Ok(found) => found
            .iter()
            .enumerate()
            .map(|(i, gpu)| DeviceInfo {
                name: format!("cuda:{i}"),
                what: too_old(gpu)
                    .map_or_else(|| described(gpu), |why| format!("not usable: {why}")),
            })
            .collect(),
        Err(why) => {
            vec![DeviceInfo { name: "cuda".to_owned(), what: format!("not usable: {why}") }]
        }
    }
}

/// The compute capability of Ampere. Kernels and products in tf32 and bf16 need it.
const OLDEST: (i32, i32) = (8, 0);

/// Why a GPU cannot be used, if it was made before Ampere.
fn too_old(gpu: &Properties) -> Option<String> {
    let Properties { name, capability: (major, minor), .. } = gpu;
    let (oldest, of) = OLDEST;
    (gpu.capability < OLDEST).then(|| {
        format!("{name} has compute capability {major}.{minor}, expected {oldest}.{of} (Ampere) or newer; use --device cpu")
    })
}

/// The compute capability of Ada, the first with 8-bit floats.
const ADA: (i32, i32) = (8, 9);

/// Why a GPU cannot compute in `precision`, if that is fp8.
fn lacks_fp8(gpu: &Properties, precision: Precision) -> Option<String> {
    let Properties { name, capability: (major, minor), .. } = gpu;
    let (ada, of) = ADA;
    (precision == Precision::Fp8 && gpu.capability < ADA).then(|| {
        format!("{name} has compute capability {major}.{minor}, fp8 needs {ada}.{of} (Ada) or newer; use bf16")
    })
}

fn described(gpu: &Properties) -> String {
    let Properties { name, total_memory, capability: (major, minor), .. } = gpu;
    let gib = *total_memory as f64 / f64::from(1 << 30);
    format!("{name}, {gib:.0} GiB, compute capability {major}.{minor}")
}

impl Cuda {
    fn new(ordinal: i32, precision: Precision, products: Arc<Products>) -> Result<Self> {
        let gpu = Arc::new(Gpu::open(ordinal)?);
        let cache = compile::cache_folder();
        let kernels = Kernels::load(&gpu, cache.as_deref())?;
        let arena = Arena::new(Arc::clone(&gpu) as Arc<dyn Supply>);
        let workspace =
            Buffer::new(arena.take(matmul::WORKSPACE)?, matmul::WORKSPACE / 4, Kind::F32);
        Ok(Self {
            ordinal,
            precision,
            gpu,
            arena,
            kernels,
            products,
            workspace,
            cache,
            attention: Mutex::default(),
            gelu_products: Mutex::default(),
            shared: Mutex::default(),
        })
    }
}

/// Compiles and loads a module whose kernels may ask for `shared` bytes of shared memory.
pub(super) fn load<M: Module>(
    gpu: &Gpu,
    source: &Source,
    shared: u32,
    cache: Option<&Path>,
) -> Result<M> {
    let target = Target::here(gpu.properties.capability);
    source.cubin(target, cache).load(|image| gpu.load(image, shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_before_ampere_is_refused_by_name() {
        let gpu = |capability| Properties {
            name: "Some GPU".to_owned(),
            total_memory: 8 << 30,
            capability,
            multiprocessors: 20,
            shared_memory: 48 << 10,
        };
        for capability in [(8, 0), (8, 9), (9, 0), (12, 0)] {
            assert_eq!(too_old(&gpu(capability)), None);
        }
        let why = too_old(&gpu((7, 5))).unwrap();
        assert!(why.contains("Some GPU has compute capability 7.5, expected 8.0"), "{why}");
        assert_eq!(lacks_fp8(&gpu((8, 6)), Precision::Bf16), None);
        assert_eq!(lacks_fp8(&gpu((8, 9)), Precision::Fp8), None);
        let why = lacks_fp8(&gpu((8, 6)), Precision::Fp8).unwrap();
        assert!(why.contains("capability 8.6, fp8 needs 8.9 (Ada) or newer"), "{why}");
        assert_eq!(described(&gpu((9, 0))), "Some GPU, 8 GiB, compute capability 9.0");
    }
}
