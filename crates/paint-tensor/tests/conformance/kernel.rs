//! Kernels of the CPU: the tests of this program once more on the one that every CPU runs, whatever this one has, and
//! `tf32`.

use std::process::Command;

use paint_tensor::{BACKENDS, Device, Precision};

use crate::agreement::agree;
use crate::cases::CASES;

/// The tests of this program in another process, where the variable names a kernel.
fn tests_on(kernel: &str, filter: &[&str]) -> (bool, String) {
    let program = std::env::current_exe().expect("a test runs as a program");
    let mut command = Command::new(program);
    let output = command
        .args(filter)
        .env("PAINT_KERNEL", kernel)
        .output()
        .expect("a program that runs can be started again");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Ten units of 2^-16, to which tiles cut both factors of a product: as for `tf32` of a GPU, whose unit is 2^-11. Other
/// kernels compute as in `f32`.
const TF32: f32 = 1.6e-4;

#[test]
fn every_operation_in_tf32_agrees_with_f32() {
    let device = Device::open("cpu", Precision::Tf32).unwrap();
    agree(CASES, &device, "CPU in tf32", TF32).unwrap();
}

#[test]
fn everything_holds_on_the_portable_kernel() {
    let (passed, said) = tests_on("portable", &["--skip", "kernel::"]);
    assert!(passed && said.contains("every_gradient_agrees"), "{said}");
}

#[test]
#[ignore = "run by the next test in a process of its own"]
fn the_device_opens_and_is_listed() {
    let opened = Device::from_name("cpu");
    let listed = BACKENDS[0].devices().remove(0);
    if let Err(error) = &opened {
        assert_eq!(listed.what, format!("not usable: {error}"));
    }
    opened.unwrap();
}

#[test]
fn a_kernel_that_does_not_exist_is_refused_with_the_known_ones() {
    let open = ["--ignored", "--exact", "kernel::the_device_opens_and_is_listed"];
    assert!(tests_on("portable", &open).0);
    let (passed, said) = tests_on("neon", &open);
    assert!(!passed && said.contains("portable, avx512, amx"), "{said}");
    assert!(!said.contains("left == right"), "{said}");
}
