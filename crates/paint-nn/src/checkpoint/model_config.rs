//! The configuration files that publishers put beside weights: timm's and Hugging Face's `config.json`, and
//! `preprocessor_config.json`.
//!
//! A missing field is no error; a field that makes no sense is one, and the error names it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use paint_files::abridged;

use super::error::{Error, Result};
use super::preprocess::{CropMode, Interpolation, Preprocess};
use super::traits::{Activation, GlobalPool};

pub(super) const CONFIG: &str = "config.json";
pub(super) const PROCESSOR: &str = "preprocessor_config.json";

/// What the files beside a set of weights say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelConfig {
    /// Preprocessing, when one of the files gives it.
    pub preprocess: Option<Preprocess>,
    /// Number of attention heads.
    pub num_heads: Option<usize>,
    /// Layer-norm epsilon.
    pub layer_norm_eps: Option<f32>,
    /// The activation inside MLPs.
    pub activation: Option<Activation>,
    /// What the classifier reads.
    pub global_pool: Option<GlobalPool>,
    /// The architecture's name, as timm or Hugging Face calls it.
    pub architecture: Option<String>,
    /// The name of each class, in order.
    pub label_names: Option<Vec<String>>,
    /// The files that were there.
    pub files: Vec<PathBuf>,
}

/// Reads `config.json` and `preprocessor_config.json` beside a set of weights, as far as they are there.
pub fn read_model_config(weights: impl AsRef<Path>) -> Result<ModelConfig> {
    let weights = weights.as_ref();
    let parent = || weights.parent().unwrap_or(Path::new(""));
    let folder = if weights.is_dir() { weights } else { parent() };
    let mut config = ModelConfig::default();
    if let Some(json) = Json::open(folder.join(CONFIG))? {
        json.model_config(&mut config)?;
        config.files.push(json.path);
    }
    if let Some(json) = Json::open(folder.join(PROCESSOR))? {
        if config.preprocess.is_none() {
            config.preprocess = json.huggingface_preprocess()?;
        }
        config.files.push(json.path);
    }
    Ok(config)
}

/// One configuration file.
struct Json {
    root: Value,
    path: PathBuf,
}

impl Json {
    fn open(path: PathBuf) -> Result<Option<Self>> {
        /// Label tables of 21,000 classes take one or two.
        const LIMIT: u64 = 16 << 20;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { action: "read", source, path }),
        };
        let mut text = Vec::new();
        if let Err(source) = file.take(LIMIT).read_to_end(&mut text) {
            return Err(Error::Io { action: "read", source, path });
        }
        match serde_json::from_slice::<Value>(&text) {
            Ok(root) if root.is_object() => Ok(Some(Self { root, path })),
            Ok(root) => Err(Error::Config {
                field: "(whole file)".to_owned(),
                expected: "a JSON object",
                found: abridged(&root.to_string()),
                path,
            }),
            Err(error) => Err(Error::Config {
                field: "(whole file)".to_owned(),
                expected: "a JSON object",
                found: error.to_string(),
                path,
            }),
        }
    }

    fn at<'a>(&'a self, place: &str, field: &str) -> Field<'a> {
        let table = if place.is_empty() { Some(&self.root) } else { self.root.get(place) };
        let name = if place.is_empty() { field.to_owned() } else { format!("{place}.{field}") };
        Field {
            name,
            value: table.and_then(|table| table.get(field)).filter(|v| !v.is_null()),
            path: &self.path,
        }
    }

    fn model_config(&self, config: &mut ModelConfig) -> Result<()> {
        config.preprocess = self.timm_preprocess()?;
        for (place, field) in [
            ("model_args", "num_heads"),
            ("", "num_heads"),
            ("vision_config", "num_attention_heads"),
            ("", "num_attention_heads"),
        ] {
            let heads = self.at(place, field).heads()?;
            config.num_heads = config.num_heads.or(heads);
        }
        for place in ["vision_config", ""] {
            let eps = self.at(place, "layer_norm_eps");
            let eps = eps.number(|x| x > 0.0 && x < 0.1, "a small number above 0")?;
            config.layer_norm_eps = config.layer_norm_eps.or(eps);
        }
        let named = self.root.get("architectures").and_then(|list| list.get(0));
        config.architecture =
            self.root.get("architecture").or(named).and_then(Value::as_str).map(str::to_owned);
        config.activation = self.activation()?.or_else(|| timm_activation(config));
        let pool = |place| GlobalPool::from_name(self.at(place, "global_pool").value?.as_str()?);
        config.global_pool = pool("model_args").or_else(|| pool(""));
        config.label_names = self.label_names();
        Ok(())
    }

    /// Hugging Face's `hidden_act`, or timm's `act_layer` among the arguments of a model.
    fn activation(&self) -> Result<Option<Activation>> {
        let places =
            [("model_args", "act_layer"), ("vision_config", "hidden_act"), ("", "hidden_act")];
        for (place, field) in places {
            let known = "gelu, gelu_tanh, quick_gelu or silu";
            let found = self
                .at(place, field)
                .parse(known, |value| Activation::from_name(value.as_str()?))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// timm's `label_names`, or Hugging Face's `id2label` unless it only counts.
    fn label_names(&self) -> Option<Vec<String>> {
        let listed = ["pretrained_cfg", ""].into_iter().find_map(|place| {
            let names = self.at(place, "label_names").value?.as_array()?;
            names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
        });
        listed.or_else(|| {
            let table = self.at("", "id2label").value?.as_object()?;
            let name = |i: usize| table.get(&i.to_string())?.as_str().map(str::to_owned);
            let names: Vec<String> = (0..table.len()).map(name).collect::<Option<_>>()?;
            let counted = names.iter().enumerate().all(|(i, name)| *name == format!("LABEL_{i}"));
            (!counted).then_some(names)
        })
    }

    /// timm: `pretrained_cfg`, or the same fields at the top level in older files.
    fn timm_preprocess(&self) -> Result<Option<Preprocess>> {
        for place in ["pretrained_cfg", ""] {
            let field = |name| self.at(place, name);
            let (Some(mean), Some(std)) = (field("mean").channels()?, field("std").deviations()?)
            else {
                continue;
            };
            let Some(input_size) = field("input_size").chw()? else { continue };
            return Ok(Some(Preprocess {
                mean,
                std,
                input_size,
                crop_pct: field("crop_pct")
                    .number(is_fraction, "a number in (0, 1]")?
                    .unwrap_or(0.875),
                crop_mode: field("crop_mode").crop_mode()?,
                interpolation: field("interpolation")
                    .interpolation()?
                    .unwrap_or(Interpolation::Bicubic),
            }));
        }
        Ok(None)
    }

    /// Hugging Face: a step that is switched off (`do_resize: false`, ...) leaves the pixels as they are.
    fn huggingface_preprocess(&self) -> Result<Option<Preprocess>> {
        let field = |name: &'static str| self.at("", name);
        let on = |name: &'static str, default| {
            field(name).value.and_then(Value::as_bool).unwrap_or(default)
        };
        let (mean, std) = if on("do_normalize", true) {
            match (field("image_mean").channels()?, field("image_std").deviations()?) {
                (Some(mean), Some(std)) => (mean, std),
                _ => return Ok(None),
            }
        } else {
            ([0.0; 3], [1.0; 3])
        };
        if !on("do_rescale", true) {
            return Err(field("do_rescale").wrong("true: pixels are rescaled to [0, 1]"));
        }
        field("rescale_factor").number(|x| (x * 255.0 - 1.0).abs() < 1e-3, "1/255")?;
        let Some(resized) = field("size").size()? else { return Ok(None) };
        let crop = if on("do_center_crop", false) { field("crop_size").size()? } else { None };
        let input_size = crop.unwrap_or(resized);
        let keeps_proportions =
            field("size").value.is_some_and(|size| size.get("shortest_edge").is_some());
        let crop_pct = match field("crop_pct").number(is_fraction, "a number in (0, 1]")? {
            Some(crop_pct) if crop.is_none() => crop_pct,
            _ => (input_size[0] as f32 / resized[0] as f32).min(1.0),
        };
        let interpolation = field("resample").interpolation()?.unwrap_or(Interpolation::Bilinear);
        let crop_mode = if keeps_proportions { CropMode::Center } else { CropMode::Squash };
        Ok(Some(Preprocess { mean, std, input_size, crop_pct, crop_mode, interpolation }))
    }
}

/// The activation that timm's name of an architecture stands for, where it is not the usual one.
fn timm_activation(config: &ModelConfig) -> Option<Activation> {
    let name = config.architecture.as_deref()?;
    let tanh = ["vit_so400m_", "vit_giantopt_", "vit_base_patch32_siglip_"];
    if name.contains("_quickgelu_") {
        return Some(Activation::QuickGelu);
    }
    tanh.iter().any(|start| name.starts_with(start)).then_some(Activation::GeluTanh)
}

fn is_fraction(x: f64) -> bool {
    x > 0.0 && x <= 1.0
}

/// One field of a file, there or not.
struct Field<'a> {
    name: String,
    value: Option<&'a Value>,
    path: &'a Path,
}

impl Field<'_> {
    fn wrong(&self, expected: &'static str) -> Error {
        let found = self.value.map_or("nothing".to_owned(), |value| abridged(&value.to_string()));
        Error::Config { field: self.name.clone(), expected, found, path: self.path.to_owned() }
    }

    /// Reads the field if it is there; a value that `parse` does not take is an error.
    fn parse<T>(
        &self,
        expected: &'static str,
        parse: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>> {
        self.value.map(|value| parse(value).ok_or_else(|| self.wrong(expected))).transpose()
    }

    fn number(&self, allowed: impl Fn(f64) -> bool, expected: &'static str) -> Result<Option<f32>> {
        self.parse(expected, |value| value.as_f64().filter(|x| allowed(*x)).map(|x| x as f32))
    }

    /// A number of heads. One for each stage is checked and left alone: the arrays of such a network show them.
    fn heads(&self) -> Result<Option<usize>> {
        let expected = "a whole number above 0, or one for each stage";
        let heads = self.parse(expected, |value| match value {
            Value::Array(stages) => {
                (!stages.is_empty() && stages.iter().all(|n| size(n).is_some())).then_some(None)
            }
            other => size(other).map(Some),
        })?;
        Ok(heads.flatten())
    }

    fn channels(&self) -> Result<Option<[f32; 3]>> {
        self.parse("three numbers", three)
    }

    fn deviations(&self) -> Result<Option<[f32; 3]>> {
        self.parse("three numbers above 0", |value| {
            three(value).filter(|std| std.iter().all(|x| *x > 0.0))
        })
    }

    /// timm's `[3, H, W]`.
    fn chw(&self) -> Result<Option<[usize; 2]>> {
        self.parse("[3, H, W]", |value| match value.as_array()?.as_slice() {
            [channels, height, width] if channels.as_u64() == Some(3) => {
                Some([size(height)?, size(width)?])
            }
            _ => None,
        })
    }

    /// Hugging Face's `224`, `{"height": 224, "width": 224}` or `{"shortest_edge": 224}`.
    fn size(&self) -> Result<Option<[usize; 2]>> {
        self.parse("a size, {height, width} or {shortest_edge}", |value| {
            let edge = size(value).or_else(|| size(value.get("shortest_edge")?));
            edge.map(|edge| [edge, edge])
                .or_else(|| Some([size(value.get("height")?)?, size(value.get("width")?)?]))
        })
    }

    fn interpolation(&self) -> Result<Option<Interpolation>> {
        self.parse("nearest, bilinear, bicubic or lanczos, or PIL's number for it", |value| {
            match value {
                Value::Number(number) => Interpolation::from_pil(number.as_u64()?),
                other => Interpolation::from_name(other.as_str()?),
            }
        })
    }

    fn crop_mode(&self) -> Result<CropMode> {
        let mode = self.parse("center or squash", |value| match value.as_str()? {
            "center" => Some(CropMode::Center),
            "squash" => Some(CropMode::Squash),
            _ => None,
        })?;
        Ok(mode.unwrap_or(CropMode::Center))
    }
}

/// An image side or a count.
fn size(value: &Value) -> Option<usize> {
    const LIMIT: u64 = 1 << 16;
    value.as_u64().filter(|n| (1..=LIMIT).contains(n)).and_then(|n| usize::try_from(n).ok())
}

fn three(value: &Value) -> Option<[f32; 3]> {
    let list = value.as_array()?;
    let [r, g, b] = list.as_slice() else { return None };
    let channels = [r.as_f64()? as f32, g.as_f64()? as f32, b.as_f64()? as f32];
    channels.iter().all(|x| x.is_finite()).then_some(channels)
}
