//! Attributes of cuBLASLt's objects, and the time that queued work takes.
#![expect(unsafe_code, reason = "every call into cuBLASLt and the driver is a foreign function")]

use std::ptr;

use cudarc::cublaslt::{result, sys};
use cudarc::driver::result::{DriverError, event};
use cudarc::driver::sys::{CUevent_flags, CUstream};

/// Milliseconds that the GPU takes for what `work` queues.
pub(super) fn elapsed(
    stream: CUstream,
    work: impl FnOnce() -> std::result::Result<(), result::CublasError>,
) -> std::result::Result<f32, result::CublasError> {
    let execution =
        |_: DriverError| result::CublasError(sys::cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED);
    let event = || event::create(CUevent_flags::CU_EVENT_DEFAULT).map_err(execution);
    let (start, end) = (event()?, event()?);
    // SAFETY: both events were made above and the stream lives as long as the backend.
    let time = (|| unsafe {
        event::record(start, stream).map_err(execution)?;
        work()?;
        event::record(end, stream).map_err(execution)?;
        event::synchronize(end).map_err(execution)?;
        event::elapsed(start, end).map_err(execution)
    })();
    for event in [start, end] {
        // SAFETY: made above, not used again.
        unsafe { event::destroy(event) }.map_err(execution)?;
    }
    time
}

pub(super) fn describe<T>(
    description: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> std::result::Result<(), result::CublasError> {
    // SAFETY: the attribute's value is a plain number of this size.
    unsafe {
        result::set_matmul_desc_attribute(
            description,
            attribute,
            ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    }
}

pub(super) fn arrange<T>(
    layout: sys::cublasLtMatrixLayout_t,
    attribute: sys::cublasLtMatrixLayoutAttribute_t,
    value: &T,
) -> std::result::Result<(), result::CublasError> {
    // SAFETY: the attribute's value is a plain number of this size.
    unsafe {
        result::set_matrix_layout_attribute(
            layout,
            attribute,
            ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    }
}

pub(super) fn prefer<T>(
    preference: sys::cublasLtMatmulPreference_t,
    attribute: sys::cublasLtMatmulPreferenceAttributes_t,
    value: &T,
) -> std::result::Result<(), result::CublasError> {
    // SAFETY: the attribute's value is a plain number of this size.
    unsafe {
        result::set_matmul_pref_attribute(
            preference,
            attribute,
            ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    }
}
