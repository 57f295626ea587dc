//! The model that travels inside the program, so that a demo and small versions of every benchmark need no download.
//! `assets/PROVENANCE.md` says where it comes from.

use std::path::Path;

use paint_nn::checkpoint::{self, Interpolation, ModelConfig, Preprocess, PreprocessFlags};

use super::Opened;
use crate::Result;

/// What stands for a path to it, as `model.weights`.
pub const NAME: &str = "embedded";
/// SHA-256 of the file that was embedded.
pub const SHA256: &str = "19cf163af87f8ad450ecf09adfc866424552933cdd257499fe2523f74f561d28";

static WEIGHTS: &[u8] = include_bytes!("../../assets/vit_tiny_patch4_32_cifar10/model.safetensors");
/// The statistics of its tokens on clean images, as `paint stats` writes them.
pub static STATISTICS: &[u8] =
    include_bytes!("../../assets/vit_tiny_patch4_32_cifar10/model.statistics.safetensors");
/// `config.json` beside it.
pub static CONFIG: &str = include_str!("../../assets/vit_tiny_patch4_32_cifar10/config.json");
const BACKBONE: &str = "vit_tiny_patch4_32";
const SIDE: usize = 32;

/// As `config.json` beside the weights has it.
fn preprocess() -> Preprocess {
    Preprocess { interpolation: Interpolation::Bilinear, ..Preprocess::usual([SIDE, SIDE]) }
}

/// The weights, with what the user says about their preprocessing.
pub(super) fn open(flags: &PreprocessFlags) -> Result<Opened> {
    let own = preprocess();
    let preprocess = flags.complete(Some(&own)).unwrap_or(own);
    let beside = ModelConfig { architecture: Some(BACKBONE.into()), ..ModelConfig::default() };
    let arrays = checkpoint::decode(WEIGHTS, Path::new("embedded weights"))?;
    Ok(Opened { sha256: SHA256.into(), beside, preprocess, arrays })
}

#[cfg(test)]
mod tests {
    use paint_data::Dataset as _;
    use paint_data::dataset::{CIFAR10_CLASSES, embedded};
    use paint_nn::backbone::Request;
    use paint_tensor::{Device, Tensor};

    use super::*;
    use crate::config::Model;

    fn assets() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/vit_tiny_patch4_32_cifar10")
    }

    #[test]
    fn the_embedded_model_knows_the_embedded_images() {
        let (device, data) = (Device::cpu(), embedded().unwrap());
        assert_eq!(data.len(0), 1000);
        let mut pixels = vec![0.0; 100 * 3 * SIDE * SIDE];
        for (i, out) in pixels.chunks_exact_mut(3 * SIDE * SIDE).enumerate() {
            data.sample(0, i).unwrap().image.to_chw(out);
        }
        let images = Tensor::from_vec(pixels, [100, 3, SIDE, SIDE], &device).unwrap();
        let mut config = Model::new(NAME);
        let model = super::super::open(&mut config, &device).unwrap();
        assert_eq!(config.sha256.as_deref(), Some(SHA256));
        let logits = model.forward(&images, &Request::default()).unwrap().logits;
        let right = logits.argmax().unwrap().into_iter().enumerate();
        let right = right.filter(|(i, class)| data.label(0, *i) == Some(*class)).count();
        // 92.4 % over the whole test set; a wrong mean, channel order or tile order falls far below.
        assert!(right >= 85, "{right} of 100");
    }

    #[test]
    fn the_embedded_statistics_are_those_of_the_embedded_weights() {
        use paint_methods::{BuildArgs, StatisticsFrom, by_name};
        let device = Device::cpu();
        let model = super::super::open(&mut Model::new(NAME), &device).unwrap();
        let statistics = Some(StatisticsFrom::Bytes(STATISTICS));
        let args = BuildArgs { statistics, ..BuildArgs::new(&*model, paint_rng::Seed(0)) };
        let mut keel = by_name("keel").unwrap().build(&args, &toml::Table::new()).unwrap();
        let grey = Tensor::full([2, 3, SIDE, SIDE], 0.5, &device).unwrap();
        let step = keel.step(&grey).unwrap();
        assert!(step.scalars.iter().any(|(name, value)| *name == "domains" && *value == 1.0));
    }

    #[test]
    fn the_heads_of_the_configuration_win_over_those_of_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let weights = folder.path().join("model.safetensors");
        std::fs::copy(assets().join("model.safetensors"), &weights).unwrap();
        let config = std::fs::read_to_string(assets().join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["model_args"]["num_heads"] = 6.into();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let heads = |weights: &Path| {
            let mut config = Model::new(weights);
            let model = super::super::open(&mut config, &Device::cpu()).unwrap();
            assert_eq!(config.backbone.as_deref(), Some(BACKBONE));
            let heads = model.vit_config().unwrap().num_heads;
            assert_eq!(config.num_heads, Some(heads).filter(|heads| *heads != 3));
            heads
        };
        assert_eq!((heads(&weights), heads(Path::new(NAME))), (6, 3));
    }

    #[test]
    fn fingerprint_preprocessing_and_classes_are_those_of_the_files() {
        let weights = assets().join("model.safetensors");
        assert_eq!(checkpoint::sha256(&weights).unwrap(), SHA256);
        let beside = checkpoint::read_model_config(&weights).unwrap();
        assert_eq!(beside.preprocess, Some(preprocess()));
        assert_eq!(beside.num_heads, Some(3), "timm's `model_args`");
        assert_eq!(beside.label_names.unwrap(), CIFAR10_CLASSES);
    }
}
