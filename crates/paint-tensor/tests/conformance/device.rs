//! The devices that the tests run on.
//!
//! A GPU that is not there (no CUDA in the build, no driver, no such device) is skipped with a message. Anything else
//! that goes wrong while a GPU is opened, such as a kernel that does not compile, fails the test. Where
//! `PAINT_TEST_DEVICE` names a GPU, that GPU must open.

use paint_tensor::{Device, Error, Precision, Result};

/// The device that was opened; none if it is not there and not demanded.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn usable(opened: Result<Device>, demanded: bool) -> Option<Device> {
    match opened {
        Ok(device) => Some(device),
        Err(error @ Error::Device { .. }) if !demanded => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The GPU that `PAINT_TEST_DEVICE` names or else the first one, if there is any.
pub(crate) fn gpu(precision: Precision) -> Option<Device> {
    let demanded = std::env::var("PAINT_TEST_DEVICE").ok().filter(|name| name.starts_with("cuda"));
    let name = demanded.as_deref().unwrap_or("cuda:0");
    usable(Device::open(name, precision), demanded.is_some())
}

/// The CPU, and a GPU if there is one.
pub(crate) fn all() -> Vec<Device> {
    std::iter::once(Device::cpu()).chain(gpu(Precision::F32)).collect()
}

/// The CPU in every precision that it has, and a GPU if there is one.
pub(crate) fn all_and_tf32() -> Vec<Device> {
    all().into_iter().chain(Device::open("cpu", Precision::Tf32)).collect()
}

/// A GPU in every precision that it has, if there is one.
pub(crate) fn gpus() -> Vec<Device> {
    [Precision::F32, Precision::Tf32, Precision::Bf16, Precision::Fp8]
        .into_iter()
        .filter_map(gpu)
        .collect()
}

#[test]
fn a_gpu_that_is_not_there_is_skipped_unless_it_is_demanded() {
    let absent = || Err(Error::Device { name: "cuda:0".to_owned(), why: "no driver".to_owned() });
    assert!(usable(absent(), false).is_none());
    assert!(std::panic::catch_unwind(|| usable(absent(), true)).is_err());
}

#[test]
fn a_gpu_that_fails_while_it_is_opened_fails_the_test() {
    for demanded in [false, true] {
        let opened = std::panic::catch_unwind(|| {
            let (what, why) = ("compiling rowwise".to_owned(), "a syntax error".to_owned());
            usable(Err(Error::Gpu { what, why }), demanded)
        });
        assert!(opened.is_err());
    }
}
