//! The table of backends, and what is known about a device.

use std::sync::Arc;

use super::{Backend, Precision, cpu};
use crate::Result;

/// A row of the table of backends.
pub struct BackendEntry {
    /// The part of a device name before the colon.
    pub name: &'static str,
    /// What it runs on.
    pub what: &'static str,
    pub(crate) open: fn(&str, Precision) -> Result<Arc<dyn Backend>>,
    pub(crate) devices: fn() -> Vec<DeviceInfo>,
}

impl BackendEntry {
    /// The devices of this kind on this machine, or why there are none to use.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        (self.devices)()
    }
}

/// Every backend of this build.
pub const BACKENDS: &[BackendEntry] = &[
    cpu::ENTRY,
    #[cfg(feature = "cuda")]
    super::cuda::ENTRY,
];

/// One device of this machine.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// The name that [`crate::Device::from_name`] takes.
    pub name: String,
    /// A description.
    pub what: String,
}

/// Bytes of a device's own memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Held by tensors at the moment.
    pub used: usize,
    /// The most that tensors held since the process began, or since
    /// [`Device::reset_peak`](crate::Device::reset_peak).
    pub peak: usize,
    /// Taken from the device, whether tensors hold it or not.
    pub reserved: usize,
}
