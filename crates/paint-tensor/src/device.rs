//! Where a tensor lives. A device is a value, never a type parameter.

use std::fmt;
use std::sync::Arc;

use crate::backend::cpu::awake;
use crate::backend::{BACKENDS, Backend, Memory, Precision};
use crate::{Error, Result};

/// A device that holds tensors and computes on them.
#[derive(Clone)]
pub struct Device(Arc<dyn Backend>);

impl Device {
    /// The CPU of this machine. Work is spread over the current rayon pool.
    pub fn cpu() -> Self {
        Self(crate::backend::cpu::backend(Precision::F32))
    }

    /// Opens a device by a name such as `cpu` or `cuda:0`, computing in `f32`; [`BACKENDS`] lists the kinds.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::open(name, Precision::F32)
    }

    /// Opens a device by name, computing in this precision.
    pub fn open(name: &str, precision: Precision) -> Result<Self> {
        let kind = name.split(':').next().unwrap_or(name);
        let entry = BACKENDS.iter().find(|entry| entry.name == kind).ok_or_else(|| {
            let known: Vec<_> = BACKENDS.iter().map(|entry| entry.name).collect();
            let known = known.join(", ");
            let hint = if kind == "cuda" { "; cuda needs one with --features cuda" } else { "" };
            Error::Device { name: name.to_owned(), why: format!("this build has {known}{hint}") }
        })?;
        (entry.open)(name, precision).map(Self)
    }

    /// Measures the best rate of a large matrix product on this device, in GFLOP/s.
    pub fn peak_gflops(&self) -> Result<f64> {
        self.0.peak_gflops()
    }

    /// Waits until all queued work is done.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    /// Runs `work` where its operations start fastest. On the CPU that is a thread of the current rayon pool, whose other
    /// threads stay awake meanwhile: waking them for every operation takes as long as a small operation itself. One
    /// caller of the process has this at a time; the work of others runs on their own threads. `work` must not wait for a
    /// thread that needs the same pool.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if self.memory().is_some() { work() } else { awake::run(work) }
    }

    /// The memory of a device that has its own; none for the CPU.
    pub fn memory(&self) -> Option<Memory> {
        self.0.memory()
    }

    /// Restarts the measurement of [`Memory::peak`].
    pub fn reset_peak(&self) {
        self.0.reset_peak();
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.0
    }

    pub(crate) fn check_same(&self, other: &Self, op: &'static str) -> Result<()> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        Err(Error::DeviceMismatch { op, left: self.to_string(), right: other.to_string() })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_device_lists_the_known_ones() {
        let message = Device::from_name("tpu").unwrap_err().to_string();
        assert!(message.contains("tpu") && message.contains("cpu"), "{message}");
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn a_build_without_cuda_says_which_feature_it_lacks() {
        let message = Device::from_name("cuda:0").unwrap_err().to_string();
        assert!(message.ends_with("this build has cpu; cuda needs one with --features cuda"));
    }
}
