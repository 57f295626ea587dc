//! Kernels of the CPU: the tests of this program once more on the one that every CPU runs, whatever this one has, and
//! other precisions.

use std::process::Command;

use paint_tensor::{BACKENDS, Device, Mlp, Precision, Tensor};

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

/// `int8`, or a message where the CPU lacks it.
fn int8() -> Option<Device> {
    match Device::open("cpu", Precision::Int8) {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(error.to_string().contains("AVX-512 VNNI, which this CPU lacks"), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn int8_changes_nothing_but_layers_without_gradients() {
    let Some(device) = int8() else { return };
    agree(CASES, &device, "CPU in int8", 0.0).unwrap();
    let tensor = |shape: [usize; 2], device: &Device| {
        let value = |i: usize| ((i * 37) % 101) as f32 / 101.0 - 0.5;
        Tensor::from_vec((0..shape[0] * shape[1]).map(value).collect(), shape, device).unwrap()
    };
    let results = |device: &Device| {
        let (x, w) = (tensor([40, 24], device), tensor([24, 24], device));
        let bias = w.slice(0, 0, 1).unwrap().reshape([24]).unwrap();
        let mlp = |w: &Tensor| x.mlp(Mlp { fc1: (w, &bias), fc2: (w, &bias) }, Some(&x)).unwrap();
        let layer = |w: &Tensor| x.layer(w, Some(&bias), Some(&x)).unwrap();
        let exact = [x.linear(&w, None).unwrap(), layer(&w.variable()), mlp(&w.variable())];
        let rounded = [layer(&w), mlp(&w)];
        (exact.map(|y| y.to_vec().unwrap()), rounded.map(|y| y.to_vec().unwrap()))
    };
    let ((exact, rounded), (expected, of_layers)) = (results(&device), results(&Device::cpu()));
    assert_eq!(exact, expected);
    for (rounded, exact) in rounded.iter().zip(&of_layers) {
        let far = rounded.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Sums of 24 products of numbers below 0.5, each half a unit of 1 / 255 or 0.5 / 127 off.
        assert!(far > 0.0 && far < 24.0 * 0.5 * 0.5 * (1.0 / 255.0 + 0.5 / 127.0), "{far}");
    }
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
