//! NaN through every operation on every backend: an element that can change a result or a gradient must be able to
//! spoil it. A NaN that is lost makes a model that diverged look healthy.

use std::path::Path;

use paint_tensor::{Device, Result, Tensor};

use crate::cases::{CASES, Case, Nan, PLAIN, projected_by};
use crate::device;

/// The result of a case and, if there are any, the gradients of its inputs, given the gradient of the result.
fn parts(
    case: &Case,
    data: &[Vec<f32>],
    device: &Device,
    change: impl FnOnce(&mut [f32]),
) -> Result<Vec<Vec<f32>>> {
    let inputs = case.tensors(data, device);
    if PLAIN.iter().any(|plain| plain.name == case.name) {
        return Ok(vec![(case.run)(&inputs)?.to_vec()?]);
    }
    let inputs: Vec<Tensor> = inputs.iter().map(Tensor::variable).collect();
    let result = (case.run)(&inputs)?.to_vec()?;
    let gradients = projected_by(case, &inputs, change)?.backward()?;
    let gradient = |x: &Tensor| gradients.get(x).expect("every input is used").to_vec();
    std::iter::once(Ok(result)).chain(inputs.iter().map(gradient)).collect()
}

/// The parts with an element that a finite change changes and a NaN does not turn into a NaN.
fn lost(before: &[Vec<f32>], changed: &[Vec<f32>], spoilt: &[Vec<f32>]) -> Vec<usize> {
    let is_lost = |&part: &usize| {
        let pairs = before[part].iter().zip(&changed[part]);
        let mut elements = pairs.zip(&spoilt[part]);
        elements.any(|((before, changed), spoilt)| before != changed && !spoilt.is_nan())
    };
    (0..before.len()).filter(is_lost).collect()
}

/// Where the NaN of an input element gets lost: on its way to the result, and to a gradient.
fn losses(case: &Case, device: &Device) -> Result<[Vec<String>; 2]> {
    let data = case.data();
    let run = |i: usize, j: usize, value: f32| {
        let mut moved = data.clone();
        moved[i][j] = value;
        parts(case, &moved, device, |_| ())
    };
    let before = parts(case, &data, device, |_| ())?;
    let mut found = [Vec::new(), Vec::new()];
    for (i, j) in (0..data.len()).flat_map(|i| (0..data[i].len()).map(move |j| (i, j))) {
        // Far enough to become the largest of a window and to leave the dead side of an activation.
        let changed = run(i, j, data[i][j] + 100.0)?;
        for part in lost(&before, &changed, &run(i, j, f32::NAN)?) {
            found[part.min(1)].push(format!("input {i} element {j}, part {part}"));
        }
    }
    Ok(found)
}

#[test]
fn a_nan_reaches_whatever_its_element_can_change() {
    let mut wrong = Vec::new();
    for device in device::all_and_tf32() {
        for case in CASES.iter().chain(PLAIN) {
            let [in_result, in_gradient] = losses(case, &device).unwrap();
            let expected = match case.nan {
                Nan::Passes => [true, true],
                Nan::NotInGradient(_) => [true, false],
                Nan::Stops(_) => [false, true],
            };
            if [in_result.is_empty(), in_gradient.is_empty()] != expected {
                let lost: Vec<String> = in_result.into_iter().chain(in_gradient).take(4).collect();
                wrong.push(format!("{} on {device} ({:?}), lost: {lost:?}", case.name, case.nan));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_nan_in_the_gradient_of_a_result_reaches_the_gradients_it_can_change() {
    for device in device::all_and_tf32() {
        for case in CASES {
            let data = case.data();
            let before = parts(case, &data, &device, |_| ()).unwrap();
            for k in 0..before[0].len() {
                let run =
                    |value: f32| parts(case, &data, &device, |weights| weights[k] = value).unwrap();
                let lost = lost(&before, &run(3.0), &run(f32::NAN));
                assert!(lost.is_empty(), "{} on {device}, element {k}: {lost:?}", case.name);
            }
        }
    }
}

#[test]
fn every_operation_on_tensors_has_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let on_tensors =
            text.split("\nimpl Tensor {\n").skip(1).map(|part| part.split("\n}\n").next());
        for line in on_tensors.flatten().flat_map(str::lines) {
            let Some(rest) = line.strip_prefix("    pub fn ") else { continue };
            let name = rest.split('(').next().unwrap_or(rest);
            let is_row = |case: &Case| {
                let after = case.name.strip_prefix(name);
                after.is_some_and(|after| after.is_empty() || after.starts_with([' ', ',']))
            };
            assert!(
                CASES.iter().chain(PLAIN).any(is_row),
                "`Tensor::{name}` of {} has no row in cases.rs",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count > 40, "only {count} operations were found");
}
