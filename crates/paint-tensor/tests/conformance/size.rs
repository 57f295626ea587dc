//! Sizes whose product is past the largest number: refused by a typed error, never wrapped around.

use paint_tensor::{Conv2d, Device, Draw, Edge, Error, Images, Result, Tensor, View};

const HUGE: usize = 1 << 40;

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, &Device::cpu()).expect("a small shape")
}

fn images() -> Images {
    Images::new(&[0; 12], [2, 2], &Device::cpu()).expect("one image")
}

#[test]
fn shapes_that_memory_cannot_hold_are_refused() {
    let conv = |padding| {
        let how = Conv2d { padding, ..Conv2d::default() };
        zeros(&[1, 1, 2, 2]).conv2d(&zeros(&[1, 1, 1, 1]), how)
    };
    let draw = Draw::plain(View::new(0));
    // Each product is zero, or small, modulo 2^64.
    let refused: [(&str, Result<Tensor>); 10] = [
        ("zeros", Tensor::zeros([1 << 33, 1 << 31], &Device::cpu())),
        ("full", Tensor::full([HUGE, HUGE, 3], 1.0, &Device::cpu())),
        ("from_vec", Tensor::from_vec(Vec::new(), [1 << 32, 1 << 32], &Device::cpu())),
        ("reshape", zeros(&[0]).reshape([1 << 33, 1 << 31])),
        ("broadcast_to", zeros(&[1]).broadcast_to([1 << 33, 1 << 31])),
        ("add", zeros(&[HUGE, 1, 0]).add(&zeros(&[1, HUGE, 0]))),
        ("matmul", zeros(&[HUGE, 0]).matmul(&zeros(&[0, HUGE]))),
        ("conv2d", conv(1 << 62)),
        ("conv2d padding", conv(usize::MAX)),
        ("compose", images().compose(&[draw], [HUGE, HUGE], Edge::Zeros)),
    ];
    for (name, result) in refused {
        let error = result.expect_err(name);
        assert!(matches!(error, Error::TooLarge { .. }), "{name}: {error}");
    }
    // 3 h w is 2 modulo 2^64.
    let odd = usize::MAX / 3 + 1;
    assert!(matches!(Images::new(&[0; 2], [odd, 1], &Device::cpu()), Err(Error::TooLarge { .. })));
}

#[test]
fn ranges_and_windows_past_the_largest_number_are_refused() {
    let error = zeros(&[3]).slice(0, usize::MAX, 2).unwrap_err();
    assert!(matches!(error, Error::Index { .. }), "{error}");
    let planes = zeros(&[1, 1, 4, 4]);
    for (side, padding) in [(3, usize::MAX), (3, usize::MAX / 2 + 1), (usize::MAX, 1)] {
        assert!(
            matches!(planes.max_pool(side, 1, padding), Err(Error::Shape { .. })),
            "{side} {padding}"
        );
    }
}

#[test]
fn restore_checks_every_place() {
    let x = zeros(&[4]);
    for places in [&[7, 1][..], &[4], &[0, 9, 3]] {
        assert!(matches!(x.restore(&x, places), Err(Error::Index { what: "restore", .. })));
    }
    let ones = Tensor::full([4], 1.0, &Device::cpu()).unwrap();
    assert_eq!(x.restore(&ones, &[3, 1]).unwrap().to_vec().unwrap(), [0.0, 1.0, 0.0, 1.0]);
}
