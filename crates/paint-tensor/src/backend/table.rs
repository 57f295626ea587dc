//! The table of backends, and what a device tells of itself.

use std::sync::Arc;

use super::{Backend, Precision, cpu};
use crate::Result;

/// A row of the table of backends.
pub struct BackendEntry {
    /// The device name up to a colon.
    pub name: &'static str,
    /// What it runs on.
    pub what: &'static str,
    pub(crate) open: fn(&str, Precision) -> Result<Arc<dyn Backend>>,
    pub(crate) devices: fn() -> Vec<DeviceInfo>,
}

impl BackendEntry {
    /// The devices of this kind that this machine has, or what keeps them from being used.
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
    /// As [`crate::Device::from_name`] takes it.
    pub name: String,
    /// In words.
    pub what: String,
}

/// Bytes of a device's own memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Held by tensors now.
    pub used: usize,
    /// The most that tensors held, since the process began or [`Device::reset_peak`](crate::Device::reset_peak).
    pub peak: usize,
    /// Taken from the device.
    pub reserved: usize,
}
