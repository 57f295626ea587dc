//! `paint inspect --images`: what the model says of a few images, and whether another normalisation suits it better.

use std::path::{Path, PathBuf};

use anyhow::bail;
use paint_data::Image;
use paint_data::dataset::{imagenet_class_name, images_below};
use paint_nn::backbone::{Backbone, Request};
use paint_nn::checkpoint::Preprocess;
use paint_run::config::{Model, Resize};
use paint_run::model::{self, ImageFit};
use paint_tensor::{Device, Tensor};
use serde::Serialize;

/// The most images that are looked at.
const MOST: usize = 16;
/// Classes that are shown for each.
const SHOWN: usize = 3;
/// The fewest images that say something together.
const FEWEST: usize = 4;
/// How much surer another normalisation must make the model.
const SURER: f32 = 0.15;
/// The mean probability of the first class below which a model knows nothing, as a share of what is left above chance.
const UNSURE: f32 = 0.1;

/// The normalisations that published weights have: name, mean, standard deviation.
const USUAL: [(&str, [f32; 3], [f32; 3]); 4] = [
    ("ImageNet's", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ("Inception's", [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
    ("CLIP's", [0.481_455, 0.457_828, 0.408_211], [0.268_63, 0.261_303, 0.275_777]),
    ("no", [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
];

/// What was seen.
#[derive(Debug, Serialize)]
pub(super) struct Look {
    pub(super) images: Vec<Seen>,
    /// The mean probability of the first class.
    pub(super) mean_probability: f32,
    pub(super) warnings: Vec<String>,
}

/// The first classes of an image.
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    pub(super) file: PathBuf,
    pub(super) top: Vec<Top>,
}

#[derive(Debug, Serialize)]
pub(super) struct Top {
    pub(super) class: usize,
    pub(super) name: Option<String>,
    pub(super) probability: f32,
}

/// Looks at images of `folder`, spread over all of them.
pub(super) fn look(weights: &Path, folder: &Path) -> anyhow::Result<Look> {
    let model = model::open(&mut Model::new(weights), &Device::cpu())?;
    let all = images_below(folder)?;
    if all.is_empty() {
        bail!("expected images (JPEG, PNG, WebP or BMP), found none: {}", folder.display());
    }
    let count = all.len().min(MOST);
    let files: Vec<PathBuf> = (0..count).map(|i| all[i * all.len() / count].clone()).collect();
    let preprocess = model.spec().preprocess.clone();
    let fit = ImageFit::new(&preprocess, Resize::IfNeeded)?;
    let [height, width] = preprocess.input_size;
    let mut pixels = vec![0.0; count * 3 * height * width];
    for (file, out) in files.iter().zip(pixels.chunks_exact_mut(3 * height * width)) {
        fit.apply(Image::open_upright(&folder.join(file))?)?.to_chw(out);
    }
    let images = Tensor::from_vec(pixels, [count, 3, height, width], &Device::cpu())?;
    let rows = probabilities(&*model, &images)?;
    let names = model::class_names(weights)?;
    let is_imagenet = names.is_empty() && model.spec().num_classes == 1000;
    let name = |class: usize| {
        let imagenet = || imagenet_class_name(class).filter(|_| is_imagenet).map(str::to_owned);
        names.get(class).cloned().or_else(imagenet)
    };
    let seen = |(file, row): (PathBuf, &Vec<f32>)| {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        let top = order.into_iter().take(SHOWN);
        let top = top.map(|class| Top { class, name: name(class), probability: row[class] });
        Seen { file, top: top.collect() }
    };
    let mean_probability = surety(&rows);
    let images_seen: Vec<Seen> = files.into_iter().zip(&rows).map(seen).collect();
    let mut warnings = doubts(&images_seen, mean_probability, model.spec().num_classes);
    warnings.extend(better(&*model, &images, &preprocess, mean_probability)?);
    Ok(Look { images: images_seen, mean_probability, warnings })
}

/// A row of probabilities for each image.
fn probabilities(model: &dyn Backbone, images: &Tensor) -> anyhow::Result<Vec<Vec<f32>>> {
    let logits = model.forward(images, &Request::default())?.logits;
    let classes = logits.shape()[1];
    Ok(logits.softmax()?.to_vec()?.chunks(classes).map(<[f32]>::to_vec).collect())
}

/// The mean of the largest probabilities.
fn surety(rows: &[Vec<f32>]) -> f32 {
    let largest = |row: &Vec<f32>| row.iter().copied().fold(0.0, f32::max);
    rows.iter().map(largest).sum::<f32>() / rows.len().max(1) as f32
}

/// What looks wrong about predictions alone.
fn doubts(seen: &[Seen], surety: f32, classes: usize) -> Vec<String> {
    let mut doubts = Vec::new();
    if seen.len() < FEWEST {
        return doubts;
    }
    let chance = 1.0 / classes.max(1) as f32;
    let causes = "a wrong mean or standard deviation, a head that was never trained, or images of another kind";
    if surety < chance + UNSURE * (1.0 - chance) {
        doubts.push(format!(
            "the model is unsure of all images (mean probability {surety:.2} where chance is {chance:.3}): {causes}"
        ));
    }
    let first = seen[0].top.first().map(|top| top.class);
    if seen.iter().all(|image| image.top.first().map(|top| top.class) == first) {
        doubts.push(format!(
            "all {} images are predicted as one class: {causes}, unless they are of one class",
            seen.len()
        ));
    }
    doubts
}

/// Another usual normalisation that makes the model much surer of the same images.
fn better(
    model: &dyn Backbone,
    images: &Tensor,
    own: &Preprocess,
    surety_of_own: f32,
) -> anyhow::Result<Option<String>> {
    let channels =
        |values: [f32; 3]| Tensor::from_vec(values.to_vec(), [1, 3, 1, 1], &Device::cpu());
    let mut best: Option<(f32, String)> = None;
    for (whose, mean, std) in USUAL {
        // The network applies its own mean and deviation: they are undone first.
        let x = images.sub(&channels(mean)?)?.div(&channels(std)?)?;
        let x = x.mul(&channels(own.std)?)?.add(&channels(own.mean)?)?;
        let found = surety(&probabilities(model, &x)?);
        if images.shape()[0] >= FEWEST
            && found > surety_of_own + SURER
            && best.as_ref().is_none_or(|(most, _)| found > *most)
        {
            let line = format!(
                "the model is much surer of these images with {whose} normalisation (mean probability {found:.2}, with its own \
                 {surety_of_own:.2}): if the preprocessing is wrong, add --set 'model.mean={mean:?}' --set 'model.std={std:?}'"
            );
            best = Some((found, line));
        }
    }
    Ok(best.map(|(_, line)| line))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use paint_data::Dataset as _;
    use paint_data::dataset::embedded;
    use serde_json::{Value, json};

    use super::*;

    /// The embedded model with this standard deviation in its configuration, and twelve of its images.
    fn written(std: Option<f32>) -> tempfile::TempDir {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../paint-run/assets/vit_tiny_patch4_32_cifar10");
        let folder = tempfile::tempdir().unwrap();
        fs::copy(assets.join("model.safetensors"), folder.path().join("model.safetensors"))
            .unwrap();
        let config = fs::read_to_string(assets.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        if let Some(std) = std {
            config["pretrained_cfg"]["std"] = json!([std, std, std]);
        }
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let (data, images) = (embedded().unwrap(), folder.path().join("images"));
        fs::create_dir(&images).unwrap();
        for i in 0..12 {
            let file = File::create(images.join(format!("{i:02}.png"))).unwrap();
            data.sample(0, i).unwrap().image.write_png(file).unwrap();
        }
        folder
    }

    #[test]
    fn a_model_with_its_own_normalisation_is_sure_of_its_images_and_names_them() {
        let folder = written(None);
        let look = look(folder.path(), &folder.path().join("images")).unwrap();
        assert_eq!((look.images.len(), look.images[0].top.len()), (12, 3));
        assert!(look.images.iter().all(|image| image.top[0].name.is_some()));
        assert!(look.mean_probability > 0.7, "{}", look.mean_probability);
        assert_eq!(look.warnings, [""; 0]);
    }

    #[test]
    fn a_wrong_standard_deviation_is_seen_and_the_right_one_named() {
        let folder = written(Some(6.0));
        let look = look(folder.path(), &folder.path().join("images")).unwrap();
        let warnings = look.warnings.join("\n");
        assert!(warnings.contains("model.std="), "{warnings}");
    }

    #[test]
    fn a_folder_without_images_is_refused() {
        let folder = written(None);
        let empty = tempfile::tempdir().unwrap();
        let error = look(folder.path(), empty.path()).unwrap_err().to_string();
        assert!(error.contains("found none"), "{error}");
    }
}
