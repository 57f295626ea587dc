//! One lane of a GPU: its context, its stream, and the launch of kernels.
//!
//! Everything runs on a single stream, in the order it was queued. Memory that a tensor gives back can therefore be
//! handed out again at once: its new owner writes to it after all earlier readers.
#![expect(unsafe_code, reason = "every call into the driver is a foreign function")]

use std::cell::Cell;
use std::ffi::CString;
use std::ptr;

use cudarc::driver::{result, sys};

use super::arena::Supply;
use super::compile::HOPPER;
use super::fetch::Fetches;
use super::kernel::{Kernel, Module};
use super::param::Params;
use super::record;
use super::staging::Staging;
use crate::{Error, Result};

/// Bytes of shared memory that any kernel may use without asking.
const DEFAULT_SHARED: u32 = 48 << 10;

/// What the driver reports about a GPU.
#[derive(Debug, Clone)]
pub(super) struct Properties {
    pub(super) name: String,
    pub(super) total_memory: usize,
    pub(super) capability: (i32, i32),
    pub(super) multiprocessors: u32,
    /// The most shared memory that a block may ask for, in bytes.
    pub(super) shared_memory: u32,
}

/// A context on one GPU with a stream.
pub(super) struct Gpu {
    context: sys::CUcontext,
    stream: sys::CUstream,
    staging: Staging,
    pub(super) fetches: Fetches,
    pub(super) properties: Properties,
}

// SAFETY: the driver's handles may be used from any thread; each call makes the context current first.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// An error of the driver while doing `what`.
pub(super) fn failed(what: &str) -> impl FnOnce(result::DriverError) -> Error {
    move |error| {
        let name = error.error_name().ok().and_then(|name| name.to_str().ok());
        let why = name.map_or_else(|| format!("{error:?}"), str::to_owned);
        Error::Gpu { what: what.to_owned(), why }
    }
}

/// Fails, in words, if one of the libraries that are loaded at run time is missing.
pub(super) fn check_libraries() -> std::result::Result<(), String> {
    // SAFETY: the functions only try to open a library.
    let present = unsafe {
        [
            ("the NVIDIA driver (libcuda)", sys::is_culib_present()),
            ("NVRTC of the CUDA toolkit (libnvrtc)", cudarc::nvrtc::sys::is_culib_present()),
            (
                "cuBLASLt of the CUDA toolkit (libcublasLt)",
                cudarc::cublaslt::sys::is_culib_present(),
            ),
        ]
    };
    let missing: Vec<&str> =
        present.iter().filter(|(_, found)| !found).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "cannot load {}; install it or put its folder into LD_LIBRARY_PATH",
        missing.join(" and ")
    ))
}

/// The properties of each GPU of this machine.
pub(super) fn devices() -> std::result::Result<Vec<Properties>, String> {
    check_libraries()?;
    let describe = |error: result::DriverError| format!("the NVIDIA driver answered {error:?}");
    result::init().map_err(describe)?;
    (0..result::device::get_count().map_err(describe)?)
        .map(|ordinal| properties(ordinal).map_err(describe))
        .collect()
}

fn properties(ordinal: i32) -> std::result::Result<Properties, result::DriverError> {
    use sys::CUdevice_attribute as Attribute;
    let device = result::device::get(ordinal)?;
    // SAFETY: the device was given by the driver just now.
    let attribute = |attribute| unsafe { result::device::get_attribute(device, attribute) };
    Ok(Properties {
        name: result::device::get_name(device)?,
        // SAFETY: as above.
        total_memory: unsafe { result::device::total_mem(device)? },
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        shared_memory: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
            as u32,
    })
}

/// How a kernel is spread over the GPU.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) blocks: [usize; 3],
    pub(super) threads: [u32; 2],
    pub(super) shared: u32,
}

impl Grid {
    pub(super) fn new(blocks: [usize; 3], threads: [u32; 2]) -> Self {
        Self { blocks, threads, shared: 0 }
    }
}

impl Gpu {
    /// Opens GPU number `ordinal`.
    pub(super) fn open(ordinal: i32) -> Result<Self> {
        result::init().map_err(failed("starting the driver"))?;
        let properties = properties(ordinal).map_err(failed("asking for the GPU's properties"))?;
        let device = result::device::get(ordinal).map_err(failed("opening the GPU"))?;
        // SAFETY: the device was given by the driver; the primary context lives as long as the process.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(failed("making a context on the GPU"))?;
        let (staging, fetches) = Default::default();
        let mut gpu = Self { context, stream: ptr::null_mut(), staging, fetches, properties };
        gpu.enter()?;
        gpu.stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(failed("making a stream"))?;
        Ok(gpu)
    }

    /// Where work goes: the GPU's stream, or the recording of this thread.
    pub(super) fn stream(&self) -> sys::CUstream {
        record::stream(self).unwrap_or(self.stream)
    }

    /// Makes the context current on this thread. Nothing else in the process changes it.
    pub(super) fn enter(&self) -> Result<()> {
        thread_local!(static CURRENT: Cell<sys::CUcontext> = const { Cell::new(ptr::null_mut()) });
        if CURRENT.get() == self.context {
            return Ok(());
        }
        // SAFETY: the context lives as long as the process.
        unsafe { result::ctx::set_current(self.context) }
            .map_err(failed("entering the context"))?;
        CURRENT.set(self.context);
        Ok(())
    }

    /// Waits until all work is done.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.enter()?;
        record::refuse(self, "waiting for the GPU")?;
        // SAFETY: the stream belongs to `self`.
        unsafe { result::stream::synchronize(self.stream) }.map_err(failed("waiting for the GPU"))
    }

    /// Loads a compiled module and finds its kernels, which may ask for up to `shared` bytes of shared memory.
    pub(super) fn load<M: Module>(&self, image: &[u8], shared: u32) -> Result<M> {
        self.enter()?;
        // SAFETY: the image is a cubin that NVRTC wrote, kept alive during the call.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(failed("loading the compiled kernels"))?;
        let shared = shared.min(self.properties.shared_memory);
        M::load(&|name| {
            let c_name = CString::new(name).expect("kernel names have no zero byte");
            // SAFETY: the module was loaded above and is never unloaded.
            let function = unsafe { result::module::get_function(module, c_name) }
                .map_err(failed(&format!("finding the kernel {name}")))?;
            if shared > DEFAULT_SHARED {
                let attribute =
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: as above.
                unsafe {
                    result::function::set_function_attribute(function, attribute, shared as i32)
                }
                .map_err(failed("asking for more shared memory"))?;
            }
            Ok(function)
        })
    }

    /// Queues a kernel. From Hopper on its blocks may start while those of the kernel before it end
    /// (`after_earlier_work` in `kernels/types.cuh`).
    pub(super) fn launch<P: Params>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        params: P,
    ) -> Result<()> {
        self.enter()?;
        let [x, y, z] = grid.blocks.map(|blocks| blocks as u32);
        let [wide, high] = grid.threads;
        // A recording gains nothing: replayed in this way, a step of a small network took a tenth longer.
        let overlaps = self.properties.capability >= HOPPER && record::stream(self).is_none();
        let mut overlap = sys::CUlaunchAttribute_st {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: wide,
            blockDimY: high,
            blockDimZ: 1,
            sharedMemBytes: grid.shared,
            hStream: self.stream(),
            attrs: &raw mut overlap,
            numAttrs: u32::from(overlaps),
        };
        // SAFETY: the parameters are those in the kernel's text (`signature.rs` compares them), and the memory they
        // name lives in buffers that return to the arena in stream order. A kernel that may start early waits for
        // earlier work before anything else, which the same test checks.
        let launched = params.with_addresses(|addresses| unsafe {
            let (function, addresses) = (kernel.function, addresses.as_mut_ptr());
            sys::cuLaunchKernelEx(&raw const config, function, addresses, ptr::null_mut()).result()
        });
        launched.map_err(|error| failed(&format!("launching {}", kernel.name))(error))
    }

    /// Queues a copy to the GPU; `data` is free again when this returns.
    pub(super) fn copy_in(&self, address: u64, data: &[f32]) -> Result<()> {
        self.enter()?;
        record::refuse(self, "copying to the GPU")?;
        self.staging.copy(self.stream, address, data)
    }

    /// Queues a copy of `bytes` on the GPU.
    pub(super) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.enter()?;
        // SAFETY: both ranges belong to blocks that live in stream order.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream) }
            .map_err(failed("copying on the GPU"))
    }

    /// Copies from the GPU after all earlier work.
    pub(super) fn copy_out(&self, address: u64, data: &mut [f32]) -> Result<()> {
        self.enter()?;
        record::refuse(self, "copying from the GPU")?;
        // SAFETY: `address` holds as many elements as `data`, which outlives the wait below.
        unsafe { result::memcpy_dtoh_async(data, address, self.stream) }
            .map_err(failed("copying from the GPU"))?;
        self.synchronize()
    }
}

impl Supply for Gpu {
    fn allocate(&self, bytes: usize) -> Result<Option<u64>> {
        self.enter()?;
        // SAFETY: the memory is uninitialised; every kernel writes its whole output.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => Ok(Some(address)),
            Err(result::DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            Err(error) => Err(failed("allocating memory")(error)),
        }
    }

    fn total(&self) -> usize {
        self.properties.total_memory
    }
}
