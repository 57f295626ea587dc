//! Uploads through memory that the GPU reads by itself: the host copies into a pinned buffer and goes on, and the
//! transfer takes its turn on the stream at the full speed of the bus.
#![expect(unsafe_code, reason = "every call into the driver is a foreign function")]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::event;
use cudarc::driver::{result, sys};

use super::driver::failed;
use crate::Result;

/// A buffer is filled again when as many are idle: while one is read, the next can be filled. Threads that upload at
/// the same time have one more each.
const BUFFERS: usize = 3;
/// Uploads up to this are staged by the driver at once; for larger ones it may wait for the stream first.
const SMALL: usize = 64 << 10;
/// Larger uploads (weights, once) go in pieces.
const LARGE: usize = 64 << 20;

pub(super) struct Pinned {
    pub(super) host: *mut c_void,
    pub(super) bytes: usize,
    /// Recorded behind the last transfer out of the buffer, or into it.
    pub(super) moved: sys::CUevent,
}

// SAFETY: pinned memory and events belong to the context, not to a thread.
unsafe impl Send for Pinned {}

impl Pinned {
    pub(super) fn new(bytes: usize) -> std::result::Result<Self, result::DriverError> {
        // SAFETY: the memory is written before it is read.
        let host = unsafe { result::malloc_host(bytes, 0) }?;
        Ok(Self { host, bytes, moved: event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)? })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: both were made by `new`; the transfer has ended.
        unsafe {
            let _ = event::synchronize(self.moved);
            let _ = event::destroy(self.moved);
            let _ = result::free_host(self.host);
        }
    }
}

/// The pinned buffers of a GPU that nobody fills, the one that was filled longest ago first.
#[derive(Default)]
pub(super) struct Staging(Mutex<VecDeque<Pinned>>);

impl Staging {
    /// Queues a copy of `data` to `address`; `data` has been read when this returns. The context is current.
    pub(super) fn copy(&self, stream: sys::CUstream, address: u64, data: &[f32]) -> Result<()> {
        let failed = |error| failed("copying to the GPU")(error);
        if size_of_val(data) <= SMALL {
            // SAFETY: `address` has room for `data`; pageable memory is staged before the call returns.
            return unsafe { result::memcpy_htod_async(address, data, stream) }.map_err(failed);
        }
        for (i, piece) in data.chunks(LARGE / 4).enumerate() {
            self.piece(stream, address + (i * LARGE) as u64, piece).map_err(failed)?;
        }
        Ok(())
    }

    fn piece(
        &self,
        stream: sys::CUstream,
        address: u64,
        data: &[f32],
    ) -> std::result::Result<(), result::DriverError> {
        let bytes = size_of_val(data);
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = {
            let mut idle = idle();
            if idle.len() >= BUFFERS { idle.pop_front() } else { None }
        };
        let buffer = match oldest.filter(|buffer| buffer.bytes >= bytes) {
            Some(buffer) => buffer,
            None => Pinned::new(bytes.next_power_of_two())?,
        };
        // SAFETY: the buffer is as large as `data` and, after the wait, nobody reads it; it lives until its next turn,
        // which waits for this transfer. `address` has room for `data`.
        unsafe {
            event::synchronize(buffer.moved)?;
            ptr::copy_nonoverlapping(data.as_ptr(), buffer.host.cast::<f32>(), data.len());
            sys::cuMemcpyHtoDAsync_v2(address, buffer.host, bytes, stream).result()?;
            if let Err(error) = event::record(buffer.moved, stream) {
                // Without the event nobody would know when the buffer is free again.
                let _ = result::stream::synchronize(stream);
                return Err(error);
            }
        }
        idle().push_back(buffer);
        Ok(())
    }
}
