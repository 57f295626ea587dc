//! Kernels of the CPU: the tests of this program once more on the one that every CPU runs, whatever this one has, and
//! other precisions.

use std::process::Command;

use paint_tensor::{BACKENDS, Device, Mlp, Precision, Result, Tensor};

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
fn int8_changes_nothing_but_layers_without_gradients() {
    let device = match Device::open("cpu", Precision::Int8) {
        Ok(device) => device,
        Err(error) => {
            assert!(error.to_string().contains("AVX-512 VNNI, which this CPU lacks"), "{error}");
            return println!("skipped: {error}");
        }
    };
    agree(CASES, &device, "CPU in int8", 0.0).unwrap();
    let inputs = |device: &Device, tracked: Option<usize>| -> Vec<Tensor> {
        let shapes: [&[usize]; 6] = [&[40, 24], &[32, 24], &[32], &[24, 32], &[24], &[40, 24]];
        let value = |i: usize| ((i * 37) % 101) as f32 / 101.0 - 0.5;
        let tensor = |(at, shape): (usize, &&[usize])| {
            let data = (0..shape.iter().product()).map(value).collect();
            let x = Tensor::from_vec(data, *shape, device).unwrap();
            if tracked == Some(at) { x.variable() } else { x }
        };
        shapes.iter().enumerate().map(tensor).collect()
    };
    let mlp =
        |x: &[Tensor]| x[0].mlp(Mlp { fc1: (&x[1], &x[2]), fc2: (&x[3], &x[4]) }, Some(&x[5]));
    // The first layer alone has no residual, the second alone no input of its own.
    let one = |x: &[Tensor]| x[0].layer(&x[1], Some(&x[2]), None);
    let two =
        |x: &[Tensor]| x[5].matmul(&x[1].transpose(0, 1)?)?.layer(&x[3], Some(&x[4]), Some(&x[0]));
    let plain = |x: &[Tensor]| x[0].linear(&x[1], Some(&x[2]));
    let values = |y: Result<Tensor>| y.unwrap().to_vec().unwrap();
    let both = |tracked| (inputs(&device, tracked), inputs(&Device::cpu(), tracked));
    for tracked in 0..6 {
        let (x, exact) = both(Some(tracked));
        assert_eq!(values(mlp(&x)), values(mlp(&exact)), "{tracked}");
        if tracked <= 2 {
            assert_eq!(values(one(&x)), values(one(&exact)), "{tracked}");
        }
        if tracked != 2 {
            assert_eq!(values(two(&x)), values(two(&exact)), "{tracked}");
        }
    }
    let (x, exact) = both(None);
    assert_eq!(values(plain(&x)), values(plain(&exact)));
    let far = |a: Result<Tensor>, b: Result<Tensor>| {
        let (a, b) = (values(a), values(b));
        a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    // Sums of 24 products of numbers below 0.5, each half a unit of 1 / 255 or 1 / 254 off. The second layer adds 32 such
    // products, whose left factors are below 6 and off by what the first was times 1.2, the slope of GELU.
    let first = 24.0 * 0.5 * 0.5 * (1.0 / 255.0 + 0.5 / 127.0);
    let second = 32.0 * 0.5 * (1.2 * first + 6.0 * 0.5 * (1.0 / 255.0 + 1.0 / 127.0));
    let [one, mlp] = [far(one(&x), one(&exact)), far(mlp(&x), mlp(&exact))];
    assert!(one > 0.0 && one < first && mlp > 0.0 && mlp < second, "{one} {mlp}");
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
