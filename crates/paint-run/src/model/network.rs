//! From arrays to the network they are the weights of.

use std::path::Path;

use paint_nn::Misfit;
use paint_nn::backbone::convnext::ConvnextConfig;
use paint_nn::backbone::swin::SwinConfig;
use paint_nn::backbone::vit::{Variant, Vit, VitConfig};
use paint_nn::backbone::{
    BACKBONES, Backbone, BackboneEntry, BuildOptions, Positions, Weights, find,
};
use paint_nn::checkpoint::{
    Architecture, Checkpoint, ConvnextSizes, ModelConfig, Preprocess, SwinSizes, Traits, VitSizes,
};
use paint_tensor::Device;

use crate::{Error, Result};

/// What is known of a set of weights beside the arrays themselves.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// The file, for messages.
    pub path: &'a Path,
    /// The row of `BACKBONES`, if the user names one.
    pub backbone: Option<&'a str>,
    /// Attention heads, if the user says how many.
    pub num_heads: Option<usize>,
    /// What the user says of what arrays do not show.
    pub traits: Traits,
    /// What the files beside the weights say.
    pub beside: &'a ModelConfig,
    /// How images are prepared.
    pub preprocess: &'a Preprocess,
}

/// A network and the row of `BACKBONES` it was built from; a transformer, ConvNeXt or Swin may have none.
pub struct Network {
    /// The row.
    pub row: Option<&'static BackboneEntry>,
    /// The network.
    pub model: Box<dyn Backbone>,
}

/// Builds the network of `arrays`, which have timm's names: the row that the user or the files beside the weights
/// name, a transformer, ConvNeXt or Swin of the sizes that the arrays show, or the one row whose arrays these are.
pub fn build(arrays: Checkpoint, about: &About<'_>, device: &Device) -> Result<Network> {
    let path = about.path;
    refuse_nan(&arrays, path)?;
    let num_heads = about.num_heads.or(about.beside.num_heads);
    let config = ModelConfig { num_heads, ..about.beside.clone() };
    let architecture = Architecture::detect(&arrays, &config)?;
    let preprocess = Some(about.preprocess.clone());
    let options = BuildOptions {
        positions: positions(&architecture),
        num_heads: about.num_heads.or(architecture.stated_heads()),
        traits: about.traits.or(Traits::of(&arrays, about.beside)),
        preprocess,
        ..BuildOptions::new(device)
    };
    let refused = |source| Error::Weights { path: path.to_owned(), source: Box::new(source) };
    let beside = about.beside.architecture.as_deref().and_then(|name| find(name).ok());
    let named = about.backbone.map(find).transpose()?.or(beside);
    let row = match (named, &architecture) {
        (Some(row), _) => row,
        (None, Architecture::Vit(sizes)) => {
            let weights = Weights::Checkpoint(arrays);
            let vit = Vit::build("vit", vit(sizes, about.preprocess), weights, &options);
            return Ok(Network { row: None, model: Box::new(vit.map_err(refused)?) });
        }
        (None, Architecture::Convnext(sizes)) => {
            let weights = Weights::Checkpoint(arrays);
            let net = convnext(sizes).build("convnext", weights, &options).map_err(refused)?;
            return Ok(Network { row: None, model: Box::new(net) });
        }
        (None, Architecture::Swin(sizes)) => {
            let weights = Weights::Checkpoint(arrays);
            let net = swin(sizes).build("swin", weights, &options).map_err(refused)?;
            return Ok(Network { row: None, model: Box::new(net) });
        }
        (None, Architecture::Foreign { network }) => {
            return Err(Error::ForeignNetwork { network, path: path.to_owned() });
        }
        (None, Architecture::Resnet(_) | Architecture::Unknown) => row_of(&arrays, path)?,
    };
    let model = row.build(Weights::Checkpoint(arrays), &options).map_err(refused)?;
    Ok(Network { row: Some(row), model })
}

/// The one row whose arrays these are, by names and shapes.
fn row_of(arrays: &Checkpoint, path: &Path) -> Result<&'static BackboneEntry> {
    let mut fitting = Vec::new();
    let mut nearest: Option<(usize, &'static str, Misfit)> = None;
    for row in BACKBONES {
        let misfit = row.misfit(arrays)?;
        let faults = misfit.missing.len() + misfit.extra.len() + misfit.misshaped.len();
        match faults {
            0 => fitting.push(row),
            _ if nearest.as_ref().is_none_or(|(fewest, ..)| faults < *fewest) => {
                nearest = Some((faults, row.name, misfit));
            }
            _ => {}
        }
    }
    let names =
        |rows: &[&BackboneEntry]| rows.iter().map(|row| row.name).collect::<Vec<_>>().join(" or ");
    match (&fitting[..], nearest) {
        ([row], _) => Ok(row),
        ([], Some((_, name, misfit))) => Err(Error::UnknownNetwork {
            nearest: name,
            misfit: Box::new(misfit),
            advice: arrays.format.advice(),
            path: path.to_owned(),
        }),
        (rows, _) => Err(Error::config(format!(
            "model.backbone: the arrays are those of {}: say which with --set model.backbone=NAME: {}",
            names(rows),
            path.display()
        ))),
    }
}

/// A network with NaN in its weights predicts nothing, whichever method adapts it.
fn refuse_nan(arrays: &Checkpoint, path: &Path) -> Result<()> {
    for (name, array) in arrays.iter() {
        let bad = array.data.iter().filter(|value| !value.is_finite()).count();
        if bad > 0 {
            let (array, of) = (name.to_owned(), array.data.len());
            return Err(Error::NotFiniteWeights { array, bad, of, path: path.to_owned() });
        }
    }
    Ok(())
}

fn vit(sizes: &VitSizes, preprocess: &Preprocess) -> VitConfig {
    VitConfig {
        image_size: preprocess.input_size,
        patch_size: sizes.patch_size[0],
        embed_dim: sizes.embed_dim,
        depth: sizes.depth,
        num_heads: sizes.num_heads,
        mlp_ratio: sizes.mlp_hidden as f32 / sizes.embed_dim as f32,
        // Of weights without a classifier, which is then told to be missing.
        num_classes: sizes.num_classes.unwrap_or(1),
        // The arrays show it when the network is built.
        variant: Variant::PLAIN,
    }
}

fn convnext(sizes: &ConvnextSizes) -> ConvnextConfig {
    let ConvnextSizes { depths, dims, num_classes } = *sizes;
    // Of weights without a classifier, which is then told to be missing.
    ConvnextConfig { depths, dims, num_classes: num_classes.unwrap_or(1) }
}

fn swin(sizes: &SwinSizes) -> SwinConfig {
    SwinConfig {
        embed_dim: sizes.embed_dim,
        depths: sizes.depths.clone(),
        num_heads: sizes.num_heads.clone(),
        window_size: sizes.window_size,
        // Of weights without a classifier, which is then told to be missing.
        num_classes: sizes.num_classes.unwrap_or(1),
    }
}

/// Positions of a square of patches are taken as they are where the images have as many patches, and resampled as
/// timm does where they have others: DINOv2 was trained at 518 pixels and is used at 224. Weights do not show which
/// rectangle they were trained on, so positions that make no square have to fit.
fn positions(architecture: &Architecture) -> Positions {
    match architecture {
        Architecture::Vit(VitSizes { grid_side: Some(_), .. }) => Positions::Interpolate,
        _ => Positions::Exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights are 12 wide, so that no number of heads can be assumed.
    #[test]
    fn heads_that_the_user_gives_need_no_configuration_beside_the_weights() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/checkpoints/timm/model.safetensors");
        let (beside, preprocess) = (ModelConfig::default(), Preprocess::usual([8, 8]));
        let heads = |num_heads| -> std::result::Result<usize, String> {
            let traits = Traits::default();
            let about = About {
                path: &path,
                backbone: None,
                num_heads,
                traits,
                beside: &beside,
                preprocess: &preprocess,
            };
            let arrays = paint_nn::checkpoint::read(&path).unwrap();
            let network = build(arrays, &about, &Device::cpu()).map_err(|e| e.to_string())?;
            Ok(network.model.vit_config().unwrap().num_heads)
        };
        assert_eq!(heads(Some(3)), Ok(3));
        for (given, found) in [(None, "found none"), (Some(5), "found 5")] {
            let error = heads(given).unwrap_err();
            assert!(error.contains("--set model.num_heads=N") && error.contains(found), "{error}");
        }
    }
}
