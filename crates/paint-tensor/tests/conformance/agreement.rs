//! How far results and gradients of a device are from those of the CPU.

use paint_tensor::{Device, Result, Tensor};

use crate::cases::{Case, projected};

/// Output, then the gradient of each input, of a case on a device.
pub(crate) fn results(case: &Case, data: &[Vec<f32>], device: &Device) -> Result<Vec<Vec<f32>>> {
    let inputs: Vec<Tensor> = case.tensors(data, device).iter().map(Tensor::variable).collect();
    let out = (case.run)(&inputs)?.to_vec()?;
    let gradients = projected(case, &inputs)?.backward()?;
    let gradients = inputs.iter().map(|x| gradients.get(x).expect("every input is used").to_vec());
    std::iter::once(Ok(out)).chain(gradients).collect()
}

/// The largest `|a - b|`, in units of the size of `b` and that of its tensor together.
pub(crate) fn gap(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let squares: f64 = b.iter().map(|x| f64::from(*x).powi(2)).sum();
    // A tensor of zeros has no size; what is this small counts as zero.
    let size = ((squares / b.len().max(1) as f64).sqrt() as f32).max(1e-6);
    let difference = |(a, b): (&f32, &f32)| match (a - b).abs() {
        gap if gap.is_nan() => f32::INFINITY,
        gap => gap / (b.abs() + size),
    };
    a.iter().zip(b).map(difference).fold(0.0, f32::max)
}

/// Every case on a device, which messages call `name`: within `tolerance` of the CPU in `f32`, and twice the same bits.
#[expect(clippy::print_stderr, reason = "what was measured stands beside the tolerance")]
pub(crate) fn agree(cases: &[Case], device: &Device, name: &str, tolerance: f32) -> Result<()> {
    let (mut failures, mut worst) = (Vec::new(), (0.0, "nothing"));
    for case in cases {
        let data = case.data();
        let (ours, reference) =
            (results(case, &data, device)?, results(case, &data, &Device::cpu())?);
        for (i, (a, b)) in ours.iter().zip(&reference).enumerate() {
            let gap = gap(a, b) / case.sensitivity;
            if gap > worst.0 {
                worst = (gap, case.name);
            }
            if gap > tolerance {
                let part = if i == 0 { "output".into() } else { format!("gradient {}", i - 1) };
                failures.push(format!("{}, {part}: {gap:.1e}", case.name));
            }
        }
        let again = results(case, &data, device)?;
        assert_eq!(ours, again, "{} gives other bits the second time", case.name);
    }
    eprintln!("{name}: at most {:.1e}, of {}; {tolerance:.0e} are allowed", worst.0, worst.1);
    assert!(failures.is_empty(), "{name}, tolerance {tolerance}: {failures:#?}");
    Ok(())
}
