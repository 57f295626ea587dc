//! Lanes: work side by side on one GPU.

use paint_tensor::{Device, Error, Precision, Result, Routine, Tensor, in_lane};

use crate::cases::values;
use crate::device::gpu;

/// A weight after steps down a loss by many small kernels, some of them replayed, and a product whose algorithm is
/// chosen by time.
fn steps(device: &Device) -> Result<Vec<f32>> {
    let tensor =
        |seed, [rows, d]: [usize; 2]| Tensor::from_vec(values(rows * d, seed), [rows, d], device);
    let (x, mut w) = (tensor(1, [33, 48])?, tensor(2, [48, 48])?.variable());
    let (first, routine) = (w.to_vec()?, Routine::default());
    for _ in 0..50 {
        routine.run(&[&x, &w.detach()], |x| Ok(vec![x[0].linear(&x[1], None)?.exp()?]))?;
        let y = x.linear(&w, None)?.linear(&w, None)?;
        let loss = y.log_softmax()?.mul(&y)?.sum_all()?;
        let gradient = loss.backward()?.get(&w).expect("w is used").scale(1e-6)?;
        w = w.detach().sub(&gradient)?.variable();
    }
    let large = tensor(3, [1100, 1024])?.linear(&tensor(4, [2048, 1024])?, None)?;
    let found = [w.to_vec()?, large.sum(0)?.to_vec()?].concat();
    assert_ne!(found[..first.len()], first, "the steps change the weight");
    Ok(found)
}

#[test]
fn lanes_work_side_by_side_and_give_the_same_bits() {
    let Some(device) = gpu(Precision::Tf32) else { return };
    let expected = steps(&device).unwrap();
    assert!(expected.iter().all(|x| x.is_finite()));
    let lane = |number| {
        in_lane(number, || {
            let device = gpu(Precision::Tf32).expect("it was there before");
            (0..5).map(|_| steps(&device)).collect::<Result<Vec<_>>>()
        })
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..4).map(|number| scope.spawn(move || lane(number))).collect();
        for (number, of_lane) in lanes.into_iter().enumerate() {
            let found = of_lane.join().expect("a lane does not panic").unwrap();
            assert!(found.iter().all(|found| *found == expected), "lane {number}");
        }
    });
}

#[test]
fn tensors_of_two_lanes_are_not_mixed() {
    let Some(device) = gpu(Precision::F32) else { return };
    let other = in_lane(1, || gpu(Precision::F32)).unwrap();
    let [a, b] = [&device, &other].map(|device| Tensor::full([3], 1.0, device).unwrap());
    assert!(matches!(a.add(&b).unwrap_err(), Error::DeviceMismatch { .. }));
    let same = in_lane(1, || gpu(Precision::F32)).unwrap();
    assert_eq!(b.add(&Tensor::full([3], 1.0, &same).unwrap()).unwrap().to_vec().unwrap(), [2.0; 3]);
}
