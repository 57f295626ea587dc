//! The values of a ViT: from a checkpoint, where every difference is refused by name, or drawn.

use std::collections::BTreeSet;

use paint_rng::Seed;
use paint_tensor::{Device, Tensor};

use super::config::{Declaration, VitConfig};
use super::position;
use crate::backbone::Positions;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Misfit, Result};
use crate::params::{Params, Part, Role, Slot};

/// The standard deviation of drawn weights, as in timm.
const INIT_STD: f64 = 0.02;
/// What layer scales begin with, as DINOv2's.
const INIT_SCALE: f32 = 1e-5;

/// Drawn as timm draws them: weights and embeddings from N(0, 0.02²) truncated at two standard deviations, biases
/// zero, norms one.
pub(super) fn draw(config: &VitConfig, seed: Seed, device: &Device) -> Result<Params> {
    let mut params = Params::default();
    for (i, Declaration { name, role, shape }) in config.parameters().into_iter().enumerate() {
        let tensor = match role.slot() {
            Some(Slot::Bias) => Tensor::zeros(&shape, device)?,
            Some(Slot::Weight) if role.is_norm_affine() => Tensor::full(&shape, 1.0, device)?,
            _ if matches!(role, Role::Block { part: Part::Scale1 | Part::Scale2, .. }) => {
                Tensor::full(&shape, INIT_SCALE, device)?
            }
            _ => {
                let mut rng = seed.derive("vit/init", &[i as u64]);
                let mut draw = || loop {
                    let z = rng.normal();
                    if z.abs() <= 2.0 {
                        break (INIT_STD * z) as f32;
                    }
                };
                let data = (0..shape.iter().product()).map(|_| draw()).collect();
                Tensor::from_vec(data, &shape, device)?
            }
        };
        params.insert(name, role, tensor)?;
    }
    Ok(params)
}

/// The number of classes of a checkpoint's head.
pub(super) fn num_classes(weights: &Checkpoint) -> Option<usize> {
    weights.get("head.weight")?.shape.first().copied()
}

/// Takes the values of a checkpoint with timm's names; a parameter that is missing, too many or of another shape is an
/// error that lists them all.
pub(super) fn take(
    model: &str,
    config: &VitConfig,
    mut weights: Checkpoint,
    positions: Positions,
    device: &Device,
) -> Result<Params> {
    let declared = config.parameters();
    if positions == Positions::Interpolate {
        for Declaration { name, shape, .. } in
            declared.iter().filter(|one| one.role == Role::PosEmbed)
        {
            let other_size = weights.get(name).is_some_and(|array| array.shape != *shape);
            if let Some(array) = other_size.then(|| weights.remove(name)).flatten() {
                let prefix = config.variant.prefix_positions();
                let resampled = position::resample(&array, prefix, config.grid())?;
                // The name was just taken out, so it cannot be there twice.
                drop(weights.insert(name.clone(), resampled));
            }
        }
    }
    let misfit = compare(&declared, &weights);
    if !misfit.is_empty() {
        return Err(Error::Weights { model: model.to_owned(), misfit });
    }
    let mut params = Params::default();
    for Declaration { name, role, shape } in declared {
        if let Some(array) = weights.remove(&name) {
            params.insert(name, role, Tensor::from_vec(array.data, shape, device)?)?;
        }
    }
    Ok(params)
}

pub(super) fn compare(declared: &[Declaration], weights: &Checkpoint) -> Misfit {
    let mut misfit = Misfit::default();
    for Declaration { name, shape, .. } in declared {
        match weights.get(name) {
            None => misfit.missing.push(name.clone()),
            Some(array) if array.shape != *shape => {
                misfit.misshaped.push((name.clone(), shape.clone(), array.shape.clone()));
            }
            Some(_) => {}
        }
    }
    let known: BTreeSet<&str> = declared.iter().map(|one| one.name.as_str()).collect();
    misfit.extra = weights
        .iter()
        .map(|(name, _)| name.to_owned())
        .filter(|name| !known.contains(name.as_str()))
        .collect();
    misfit
}
