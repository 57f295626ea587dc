//! Downloads that the host waits for later: the copy takes its turn on the stream, and what is queued behind it runs
//! while the host reads.
#![expect(unsafe_code, reason = "every call into the driver is a foreign function")]

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::result::{DriverError, event, stream};
use cudarc::driver::sys;

use super::buffer::Buffer;
use super::driver::{Gpu, failed};
use super::staging::Pinned;
use super::{Cuda, record};
use crate::Result;
use crate::backend::Storage;

/// The largest pinned buffer that is kept has room for so many numbers.
const FEW: usize = 1 << 20;

/// Pinned buffers of a GPU that nobody reads from.
#[derive(Default)]
pub(super) struct Fetches(Mutex<Vec<Pinned>>);

impl Fetches {
    fn take(&self, bytes: usize) -> std::result::Result<Pinned, DriverError> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.filter(|buffer| buffer.bytes >= bytes)
            .map_or_else(|| Pinned::new(bytes.next_power_of_two()), Ok)
    }

    fn give(&self, buffer: Pinned) {
        if buffer.bytes > size_of::<f32>() * FEW {
            return;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// Numbers on their way to the host.
pub(crate) struct Fetched {
    buffer: Pinned,
    len: usize,
    gpu: Arc<Gpu>,
}

impl Fetched {
    /// Waits for them.
    pub(crate) fn finish(self) -> Result<Vec<f32>> {
        let Self { buffer, len, gpu } = self;
        gpu.enter()?;
        // SAFETY: the event was recorded behind the transfer of `len` numbers into the buffer.
        let data = unsafe {
            event::synchronize(buffer.moved).map_err(failed("copying from the GPU"))?;
            std::slice::from_raw_parts(buffer.host.cast::<f32>(), len).to_vec()
        };
        gpu.fetches.give(buffer);
        Ok(data)
    }
}

impl Cuda {
    /// Queues a download; none while this thread records.
    pub(super) fn fetched(&self, x: &Storage) -> Result<Option<Fetched>> {
        if record::stream(&self.gpu).is_some() {
            return Ok(None);
        }
        let x = self.widened(x)?;
        self.gpu.enter()?;
        self.queued(&x).map(Some).map_err(failed("copying from the GPU"))
    }

    /// The numbers themselves, for which the host waits. A small number of them goes through a [`Fetched`]: the driver
    /// would copy them in two steps.
    pub(super) fn downloaded(&self, x: &Storage) -> Result<Vec<f32>> {
        record::refuse(&self.gpu, "copying from the GPU")?;
        let x = self.widened(x)?;
        self.gpu.enter()?;
        if x.len() <= FEW {
            return self.queued(&x).map_err(failed("copying from the GPU"))?.finish();
        }
        let mut data = vec![0.0; x.len()];
        self.gpu.copy_out(x.address(), &mut data)?;
        Ok(data)
    }

    /// On the context that is current.
    fn queued(&self, x: &Buffer) -> std::result::Result<Fetched, DriverError> {
        let (len, gpu) = (x.len(), Arc::clone(&self.gpu));
        let buffer = gpu.fetches.take(size_of::<f32>() * len.max(1))?;
        // SAFETY: nobody reads from the buffer, and it has room for `len` numbers. Their memory returns to the arena in
        // stream order.
        unsafe {
            let bytes = size_of::<f32>() * len;
            sys::cuMemcpyDtoHAsync_v2(buffer.host, x.address(), bytes, gpu.stream()).result()?;
            if let Err(error) = event::record(buffer.moved, gpu.stream()) {
                // Without the event nobody would know when the buffer is free again.
                let _ = stream::synchronize(gpu.stream());
                return Err(error);
            }
        }
        Ok(Fetched { buffer, len, gpu })
    }
}
