//! From a file of weights to a model, and from any image to the model's size.

pub mod embedded;

use std::path::Path;
use std::sync::Arc;

use paint_data::dataset::CIFAR10_CLASSES;
use paint_data::image::{Filter, Preprocess};
use paint_data::{Dataset, Domain, Info, Sample};
use paint_nn::backbone::vit::{Vit, VitConfig};
use paint_nn::backbone::{BACKBONES, Backbone, BuildOptions, Positions, Weights, find};
use paint_nn::checkpoint::{
    self, Architecture, Checkpoint, CropMode, Interpolation, ModelConfig, PreprocessFlags,
    VitSizes, read_model_config, read_preprocess,
};
use paint_tensor::Device;

use crate::config::{Model, Resize};
use crate::{Error, Result};

/// Weights, and what is known of them.
struct Opened {
    sha256: String,
    beside: ModelConfig,
    preprocess: checkpoint::Preprocess,
    arrays: Checkpoint,
}

/// Reads the weights of `config` and builds their model on `device`; writes the fingerprint of the file, or refuses a file
/// that has another one, and the preprocessing into `config`.
pub fn open(config: &mut Model, device: &Device) -> Result<Box<dyn Backbone>> {
    let weights = &config.weights;
    let refused = |source: paint_nn::Error| {
        let (path, source) = (weights.clone(), Box::new(source));
        Error::Weights { path, source }
    };
    let Opened { sha256, beside, preprocess, arrays } = if weights == Path::new(embedded::NAME) {
        embedded::open(&flags(config)?)?
    } else {
        Opened {
            sha256: checkpoint::sha256(weights)?,
            beside: read_model_config(weights)?,
            preprocess: read_preprocess(weights, &flags(config)?)?,
            arrays: checkpoint::to_timm(checkpoint::read(weights)?)?.1,
        }
    };
    if let Some(expected) = config.sha256.as_ref().filter(|expected| **expected != sha256) {
        return Err(Error::Checkpoint {
            expected: format!("weights with SHA-256 {expected}"),
            found: sha256,
            path: weights.clone(),
        });
    }
    let architecture = Architecture::detect(&arrays, &beside)?;
    let positions = positions(&architecture, preprocess.input_size);
    let preprocess = Some(preprocess);
    let num_heads = config.num_heads.or(architecture.stated_heads());
    let options = BuildOptions { preprocess, positions, num_heads, ..BuildOptions::new(device) };
    let is_row = |name: &&String| BACKBONES.iter().any(|entry| entry.name == **name);
    let name = config.backbone.clone().or(beside.architecture.as_ref().filter(is_row).cloned());
    let model = match (&name, architecture) {
        (Some(name), _) => {
            find(name)?.build(Weights::Checkpoint(arrays), &options).map_err(refused)?
        }
        (None, Architecture::Vit(sizes)) => {
            let image_size = options.preprocess.as_ref().map_or([224, 224], |p| p.input_size);
            let vit = VitConfig {
                image_size,
                patch_size: sizes.patch_size[0],
                embed_dim: sizes.embed_dim,
                depth: sizes.depth,
                num_heads: sizes.num_heads,
                mlp_ratio: sizes.mlp_hidden as f32 / sizes.embed_dim as f32,
                num_classes: sizes.num_classes.unwrap_or(0),
            };
            let weights = Weights::Checkpoint(arrays);
            Box::new(Vit::build("vit", vit, weights, &options).map_err(refused)?)
        }
        (None, _) => {
            let known: Vec<&str> = BACKBONES.iter().map(|entry| entry.name).collect();
            let known = known.join(", ");
            return Err(Error::config(format!(
                "{} does not show its network: give model.backbone, one of {known}",
                weights.display()
            )));
        }
    };
    let used = &model.spec().preprocess;
    config.sha256 = Some(sha256);
    config.backbone = name;
    config.mean = Some(used.mean);
    config.std = Some(used.std);
    config.input_size = Some(used.input_size);
    config.crop_pct = Some(used.crop_pct);
    config.interpolation = Some(used.interpolation.name().into());
    config.crop_mode = Some(used.crop_mode).filter(|mode| *mode != CropMode::Center);
    // What every published transformer has goes without saying.
    let unusual = |vit: &&VitConfig| vit.num_heads * 64 != vit.embed_dim;
    config.num_heads = model.vit_config().filter(unusual).map(|vit| vit.num_heads);
    Ok(model)
}

/// What the files beside weights call their classes, in order; nothing if they have no names.
pub fn class_names(weights: &Path) -> Result<Vec<String>> {
    if weights == Path::new(embedded::NAME) {
        return Ok(CIFAR10_CLASSES.map(str::to_owned).to_vec());
    }
    Ok(read_model_config(weights)?.label_names.unwrap_or_default())
}

/// A ViT may have been trained at another image size than its namesake's: where the weights have the positions of the
/// preprocessing's square size they are taken as they are. Weights do not show which rectangle they were trained on.
fn positions(architecture: &Architecture, [height, width]: [usize; 2]) -> Positions {
    match architecture {
        Architecture::Vit(VitSizes { patch_size: [rows, columns], num_tokens, .. })
            if height / rows == width / columns
                && *num_tokens == 1 + (height / rows) * (width / columns) =>
        {
            Positions::Interpolate
        }
        _ => Positions::Exact,
    }
}

fn flags(config: &Model) -> Result<PreprocessFlags> {
    let check = |key: &str, given: &[f32], fits: fn(&f32) -> bool, expected: &str| {
        if given.iter().all(fits) {
            return Ok(());
        }
        Err(Error::config(format!("model.{key}: expected {expected}, got {given:?}")))
    };
    let channels = |x: &Option<[f32; 3]>| x.map_or_else(Vec::new, Vec::from);
    let scale = "three numbers in [0, 1], as the images are (not 0 to 255)";
    check("mean", &channels(&config.mean), |x| (0.0..=1.0).contains(x), scale)?;
    check("std", &channels(&config.std), |x| x.is_finite() && *x > 0.0, "three numbers above 0")?;
    let crop_pct = config.crop_pct.as_slice();
    check("crop_pct", crop_pct, |x| *x > 0.0 && *x <= 1.0, "a number in (0, 1]")?;
    let interpolation = config.interpolation.as_deref().map(|name| {
        Interpolation::from_name(name).ok_or_else(|| {
            let known = Interpolation::ALL.map(Interpolation::name).join(", ");
            Error::config(format!("model.interpolation: expected one of {known}, got {name:?}"))
        })
    });
    Ok(PreprocessFlags {
        mean: config.mean,
        std: config.std,
        input_size: config.input_size,
        crop_pct: config.crop_pct,
        crop_mode: config.crop_mode,
        interpolation: interpolation.transpose()?,
    })
}

/// What brings an image to the input of a network: its short side to `size / crop_pct` and the middle cut out, or both
/// sides squeezed, as its weights were trained.
pub fn image_steps(preprocess: &checkpoint::Preprocess) -> Result<Preprocess> {
    let [height, width] = preprocess.input_size;
    let filter = match preprocess.interpolation {
        Interpolation::Bilinear => Filter::Bilinear,
        Interpolation::Bicubic => Filter::Bicubic,
        other => {
            let name = other.name();
            return Err(Error::config(format!(
                "model.interpolation: images are resized with bilinear or bicubic, the weights ask for {name}"
            )));
        }
    };
    let grown = |size: usize| (size as f32 / preprocess.crop_pct).floor() as usize;
    Ok(match preprocess.crop_mode {
        CropMode::Center if height == width => {
            Preprocess::resize_and_crop(grown(height), height, filter)
        }
        CropMode::Center | CropMode::Squash => Preprocess::exact(width, height, filter),
    })
}

/// A dataset whose images all have the model's size: those that have it already are left alone (unless [`Resize::Always`]),
/// the others go through the preprocessing of the weights.
pub struct Fitted {
    inner: Arc<dyn Dataset>,
    size: [usize; 2],
    steps: Preprocess,
    resize: Resize,
}

impl Fitted {
    /// `inner` as a model with this preprocessing takes it.
    pub fn new(
        inner: Arc<dyn Dataset>,
        preprocess: &checkpoint::Preprocess,
        resize: Resize,
    ) -> Result<Self> {
        Ok(Self { inner, size: preprocess.input_size, steps: image_steps(preprocess)?, resize })
    }
}

impl Dataset for Fitted {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn domains(&self) -> &[Domain] {
        self.inner.domains()
    }

    fn len(&self, domain: usize) -> usize {
        self.inner.len(domain)
    }

    fn label(&self, domain: usize, index: usize) -> Option<usize> {
        self.inner.label(domain, index)
    }

    fn sample(&self, domain: usize, index: usize) -> paint_data::Result<Sample> {
        let Sample { image, label } = self.inner.sample(domain, index)?;
        if self.resize == Resize::IfNeeded && [image.height(), image.width()] == self.size {
            return Ok(Sample { image, label });
        }
        Ok(Sample { image: self.steps.apply(image)?, label })
    }

    fn content(&self, domain: usize, index: usize) -> paint_data::Result<Vec<u8>> {
        self.inner.content(domain, index)
    }
}

#[cfg(test)]
mod tests {
    use paint_data::Image;
    use paint_data::dataset::Memory;

    use super::*;

    fn preprocess(
        input_size: [usize; 2],
        crop_pct: f32,
        crop_mode: CropMode,
    ) -> checkpoint::Preprocess {
        let interpolation = Interpolation::Bicubic;
        let (mean, std) = ([0.5; 3], [0.5; 3]);
        checkpoint::Preprocess { mean, std, input_size, crop_pct, crop_mode, interpolation }
    }

    #[test]
    fn a_normalisation_that_is_none_is_refused_by_its_key() {
        let with = |key: &str, value: &str| {
            let text = format!("weights = 'w'\n{key} = {value}");
            flags(&toml::from_str(&text).unwrap()).map(|_| ()).map_err(|error| error.to_string())
        };
        for (key, value) in [
            ("mean", "[127.5, 127.5, 127.5]"),
            ("mean", "[0.5, nan, 0.5]"),
            ("std", "[-0.5, 0.5, 0.5]"),
            ("std", "[0.0, 0.5, 0.5]"),
            ("std", "[inf, 0.5, 0.5]"),
            ("crop_pct", "-1.0"),
            ("crop_pct", "nan"),
        ] {
            let message = with(key, value).unwrap_err();
            assert!(message.contains(&format!("model.{key}: expected")), "{message}");
        }
        assert_eq!(with("mean", "[0.0, 0.5, 1.0]"), Ok(()));
    }

    #[test]
    fn the_crop_fraction_decides_how_large_an_image_is_made() {
        // 224 / 0.9 = 248.9, rounded down as timm does.
        let steps = image_steps(&preprocess([224, 224], 0.9, CropMode::Center)).unwrap();
        assert_eq!(steps, Preprocess::resize_and_crop(248, 224, Filter::Bicubic));
        let steps = image_steps(&preprocess([32, 48], 1.0, CropMode::Center)).unwrap();
        assert_eq!(steps, Preprocess::exact(48, 32, Filter::Bicubic));
    }

    #[test]
    fn an_image_of_the_right_size_is_left_alone_and_others_are_brought_to_it() {
        let image = |width: usize, height: usize| Sample {
            image: Image::new(width, height, (0..width * height * 3).map(|i| i as u8).collect())
                .unwrap(),
            label: None,
        };
        let info = Info { name: "memory", num_classes: 1, class_indices: None, class_names: None };
        let samples = vec![image(6, 6), image(20, 12)];
        let inner = Arc::new(Memory::new(info, vec![(Domain::clean(), samples.clone())]).unwrap());
        let fit = |resize| {
            let preprocess = preprocess([6, 6], 0.75, CropMode::Center);
            Fitted::new(Arc::<Memory>::clone(&inner), &preprocess, resize).unwrap()
        };
        let fitted = fit(Resize::IfNeeded);
        assert_eq!(fitted.sample(0, 0).unwrap(), samples[0]);
        let always = fit(Resize::Always).sample(0, 0).unwrap();
        assert_ne!(always, samples[0]);
        assert_eq!((always.image.width(), always.image.height()), (6, 6));
        let other = fitted.sample(0, 1).unwrap().image;
        assert_eq!((other.width(), other.height()), (6, 6));
    }
}
