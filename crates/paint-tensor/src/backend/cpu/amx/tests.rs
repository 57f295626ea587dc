//! The tile kernel against exact sums.

use std::cell::RefCell;

use super::Split;
use crate::backend::cpu::gemm::{Operand, Size, serial};
use crate::backend::cpu::kernel::Kernel;

fn has_tiles() -> bool {
    let found = super::available();
    if !found {
        eprintln!("skipped: this CPU has no AMX");
    }
    found
}

#[test]
fn registers_are_set_up_by_the_first_owner_and_released_by_the_last() {
    let (owners, log) = (super::registers::Owners::new(), RefCell::new(Vec::new()));
    let enter = || owners.enter(|| log.borrow_mut().push("set up"));
    let leave = || owners.leave(|| log.borrow_mut().push("release"));
    enter();
    enter();
    leave();
    assert_eq!(*log.borrow(), ["set up"], "the outer owner still multiplies");
    enter();
    leave();
    leave();
    assert_eq!(*log.borrow(), ["set up", "release"]);
    enter();
    assert_eq!(*log.borrow(), ["set up", "release", "set up"]);
}

fn product(kernel: Kernel, size: Size, a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut c = vec![f32::NAN; size.m * size.n];
    let operands = (Operand::new(a, size.k, 1), Operand::new(b, 1, size.k));
    serial(kernel, size, operands, &mut c, size.n);
    c
}

/// Values over many orders of magnitude, of both signs.
fn values(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next() * (8.0 * next()).exp()).collect()
}

#[test]
fn six_partial_products_are_as_exact_as_floats() {
    if !has_tiles() {
        return;
    }
    let size = Size { m: 40, n: 70, k: 500 };
    let (a, b) = (values(size.m * size.k, 1), values(size.n * size.k, 2));
    let (tiles, floats) =
        (product(Kernel::Amx(Split::Three), size, &a, &b), product(Kernel::Avx512, size, &a, &b));
    let (mut tile_error, mut float_error) = (0.0, 0.0);
    for i in 0..size.m {
        for j in 0..size.n {
            let terms =
                (0..size.k).map(|d| f64::from(a[i * size.k + d]) * f64::from(b[j * size.k + d]));
            let exact: f64 = terms.sum();
            let at = i * size.n + j;
            tile_error += (f64::from(tiles[at]) - exact).powi(2);
            float_error += (f64::from(floats[at]) - exact).powi(2);
        }
    }
    assert!(tile_error < float_error, "squared errors {tile_error:e} and {float_error:e}");
}

/// The largest relative error of a product of two numbers.
fn worst_single_product(split: Split) -> f64 {
    let errors = values(5000, 3).into_iter().zip(values(5000, 4)).map(|(x, y)| {
        let found = product(Kernel::Amx(split), Size { m: 1, n: 1, k: 1 }, &[x], &[y])[0];
        let exact = f64::from(x) * f64::from(y);
        (f64::from(found) - exact).abs() / exact.abs()
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn a_single_product_keeps_24_bits_of_three_parts_and_16_of_two() {
    if !has_tiles() {
        return;
    }
    let unit = |bits| 0.5_f64.powi(bits);
    // Five roundings to 2^-24 in the sums of the six parts.
    let error = worst_single_product(Split::Three);
    assert!(error < 5.0 * unit(24), "{error:e}");
    // Each factor is cut after 16 bits, and the product of the two second parts, at most 2^-9 each, is left out.
    let error = worst_single_product(Split::Two);
    assert!(error < 2.0 * unit(16) + unit(18) + unit(22), "{error:e}");
    assert!(error > unit(18), "{error:e}: two parts should not be as exact as three");
}

#[test]
fn numbers_that_are_not_finite_stay_visible() {
    if !has_tiles() {
        return;
    }
    for bad in [f32::NAN, -f32::NAN, f32::from_bits(0x7fff_ffff), f32::INFINITY] {
        let mut a = vec![1.0; 5 * 40];
        a[3 * 40 + 7] = bad;
        for kernel in [Split::Two, Split::Three].map(Kernel::Amx) {
            let c = product(kernel, Size { m: 5, n: 33, k: 40 }, &a, &vec![1.0; 33 * 40]);
            for (i, value) in c.iter().enumerate() {
                assert_eq!(value.is_finite(), i / 33 != 3, "{bad}: element {i} is {value}");
            }
        }
    }
}
