//! One set of names for every publisher's ViT, ConvNeXt and Swin: timm's, which the models of this crate use.
//!
//! A convention is one file with one function, which says where an array goes and in what layout. Names it does not
//! know are kept, so that a model can refuse them by name.

mod convnext;
mod google;
mod huggingface;
mod huggingface_clip;
mod open_clip;
mod swin;
mod timm;
mod torchvision;

use std::collections::BTreeMap;
use std::fmt;

pub use convnext::Publisher;

use super::Checkpoint;
use paint_files::{Dtype, Fault, abridged};

use super::array::Array;
use super::error::{Error, Result};
use super::traits::{Activation, GlobalPool, Traits};

/// Whose names a checkpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// timm: `blocks.0.attn.qkv.weight`.
    Timm,
    /// Hugging Face transformers: `vit.encoder.layer.0.attention.attention.query.weight`.
    HuggingFace,
    /// The image towers of Hugging Face: `vision_model.encoder.layers.0.self_attn.q_proj.weight`.
    HuggingFaceClip,
    /// OpenAI's CLIP and open_clip: `visual.transformer.resblocks.0.ln_1.weight`.
    OpenClip,
    /// torchvision: `encoder.layers.encoder_layer_0.self_attention.in_proj_weight`.
    Torchvision,
    /// Google's JAX code: `Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel`.
    Google,
    /// ConvNeXt under other names than timm's.
    Convnext(Publisher),
    /// Swin under other names than those of timm today.
    Swin(Publisher),
    /// Not a known network; names are kept, except for wrapper prefixes.
    Other,
}

impl fmt::Display for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timm => "timm",
            Self::HuggingFace => "Hugging Face",
            Self::HuggingFaceClip => "Hugging Face CLIP",
            Self::OpenClip => "open_clip",
            Self::Torchvision => "torchvision",
            Self::Google => "Google JAX",
            Self::Swin(Publisher::Authors) => "the authors' Swin",
            Self::Convnext(publisher) | Self::Swin(publisher) => return publisher.fmt(f),
            Self::Other => "other",
        })
    }
}

impl Convention {
    fn detect(checkpoint: &Checkpoint) -> Self {
        let any = |test: fn(&str) -> bool| checkpoint.iter().any(|(name, _)| test(name));
        let is_convnext =
            |name: &str| name.starts_with("stages.") && name.ends_with(".conv_dw.weight");
        if let Some(publisher) = swin::publisher(any) {
            Self::Swin(publisher)
        } else if any(|name| name == "patch_embed.proj.weight") || any(is_convnext) {
            Self::Timm
        } else if let Some(publisher) = convnext::publisher(any) {
            Self::Convnext(publisher)
        } else if any(|name| name.ends_with("embeddings.patch_embeddings.projection.weight")) {
            Self::HuggingFace
        } else if any(|name| name.ends_with("embeddings.patch_embedding.weight")) {
            Self::HuggingFaceClip
        } else if any(|name| name.starts_with("visual."))
            || any(|name| name == "class_embedding") && any(|name| name == "ln_pre.weight")
        {
            Self::OpenClip
        } else if any(|name| name == "conv_proj.weight")
            && any(|name| name.starts_with("encoder.layers."))
        {
            Self::Torchvision
        } else if any(|name| name.starts_with("Transformer/")) {
            Self::Google
        } else {
            Self::Other
        }
    }

    fn place(
        self,
        name: &str,
        array: Array,
        facts: Facts,
    ) -> std::result::Result<Vec<Placed>, Fault> {
        Ok(vec![match self {
            Self::HuggingFace => huggingface::place(name, array),
            Self::HuggingFaceClip => {
                return Ok(huggingface_clip::place(name, array, facts.classified, facts.norm_pre));
            }
            Self::OpenClip => open_clip::place(name, array, facts.whole_clip),
            Self::Torchvision => torchvision::place(name, array),
            Self::Google => google::place(name, array)?,
            Self::Convnext(publisher) => convnext::place(name, array, publisher),
            Self::Swin(publisher) => swin::place(name, array, publisher),
            Self::Timm => timm::place(name, array),
            Self::Other => Placed::whole(name, array),
        }])
    }

    /// What this publisher's code does, as far as the arrays do not show it, unless its configuration says otherwise.
    fn traits(self, facts: Facts) -> Traits {
        let (eps, activation, pool) = match self {
            Self::HuggingFace => (if facts.layer_scale { 1e-6 } else { 1e-12 }, None, None),
            Self::Convnext(Publisher::HuggingFace) => (1e-12, None, None),
            Self::HuggingFaceClip if facts.norm_pre => {
                (1e-5, Some(Activation::QuickGelu), Some(GlobalPool::AvgRaw))
            }
            Self::HuggingFaceClip => (1e-6, Some(Activation::GeluTanh), Some(GlobalPool::Avg)),
            Self::OpenClip
            | Self::Timm
            | Self::Torchvision
            | Self::Google
            | Self::Convnext(_)
            | Self::Swin(_)
            | Self::Other => {
                return Traits::default();
            }
        };
        let global_pool = pool.filter(|_| facts.classified);
        Traits { layer_norm_eps: Some(eps), activation, global_pool }
    }
}

/// What the names of a whole file show.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is found or not")]
struct Facts {
    /// Whether there is a classifier of Hugging Face's.
    classified: bool,
    /// Whether there is CLIP's norm before the blocks.
    norm_pre: bool,
    layer_scale: bool,
    /// Whether there is an image tower beside something else.
    whole_clip: bool,
}

impl Facts {
    fn of(checkpoint: &Checkpoint) -> Self {
        let any = |test: fn(&str) -> bool| checkpoint.iter().any(|(name, _)| test(name));
        Self {
            classified: any(|name| name == "classifier.weight"),
            norm_pre: any(|name| name.ends_with("pre_layrnorm.weight")),
            layer_scale: any(|name| name.contains(".layer_scale1.")),
            whole_clip: any(|name| name.starts_with("visual.")),
        }
    }
}

/// Metadata under which [`to_timm`] leaves a number of attention heads that only the original layout shows.
pub(super) const NUM_HEADS: &str = "num_heads";

/// What trainers wrap around a model and leave in its names.
const WRAPPERS: [&str; 10] = [
    "module.",
    "_orig_mod.",
    "model.",
    "backbone.",
    "network.",
    "ema.",
    "model_ema.",
    "ema_model.",
    "opt/target/",
    "params/",
];

/// Brings a checkpoint to timm's names and layouts: wrapper prefixes that all names share go, separate query, key and
/// value become one packed array, JAX kernels are transposed. Says whose names it had.
pub fn to_timm(checkpoint: Checkpoint) -> Result<(Convention, Checkpoint)> {
    let checkpoint = without_wrappers(checkpoint);
    let convention = Convention::detect(&checkpoint);
    convert(checkpoint, convention)
        .map(|done| (convention, done))
        .map_err(|fault| Error::Names { convention, fault })
}

fn without_wrappers(mut checkpoint: Checkpoint) -> Checkpoint {
    let shared = |checkpoint: &Checkpoint| {
        WRAPPERS.into_iter().find(|prefix| {
            !checkpoint.is_empty()
                && checkpoint
                    .iter()
                    .all(|(name, _)| name.len() > prefix.len() && name.starts_with(prefix))
        })
    };
    while let Some(prefix) = shared(&checkpoint) {
        for (name, _) in &mut checkpoint.entries {
            name.drain(..prefix.len());
        }
        checkpoint.index = checkpoint
            .entries
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (name.clone(), at))
            .collect();
    }
    checkpoint
}

fn convert(
    checkpoint: Checkpoint,
    convention: Convention,
) -> std::result::Result<Checkpoint, Fault> {
    let mut out = Checkpoint::new(checkpoint.format);
    out.metadata.clone_from(&checkpoint.metadata);
    out.skipped.clone_from(&checkpoint.skipped);
    let facts = Facts::of(&checkpoint);
    convention.traits(facts).note(&mut out.metadata);
    // A graph says itself what the publisher's code usually does.
    out.metadata.extend(checkpoint.metadata.clone());
    let mut packs: BTreeMap<String, Vec<Option<Array>>> = BTreeMap::new();
    for (name, array) in checkpoint {
        let all = convention.place(&name, array, facts).map_err(|fault| fault.in_array(&name))?;
        for placed in all {
            if let Some(heads) = placed.num_heads {
                out.metadata.insert(NUM_HEADS.to_owned(), heads.to_string());
            }
            match (placed.dropped, placed.part) {
                (Some(why), _) => out.skipped.push((abridged(&name), why.to_owned())),
                (None, None) => out.insert(placed.name, placed.array)?,
                (None, Some((part, of))) => {
                    let pack = packs.entry(placed.name).or_default();
                    pack.resize(of, None);
                    if pack[part].replace(placed.array).is_some() {
                        return Err(Fault::Duplicate { name: abridged(&name) });
                    }
                }
            }
        }
        // Packed where their last part stands, so that arrays keep about the order of the file.
        let whole = packs.extract_if(.., |_, pack| pack.iter().all(Option::is_some));
        for (name, pack) in whole.collect::<Vec<_>>() {
            let packed = packed(pack.into_iter().flatten().collect());
            out.insert(name.clone(), packed.map_err(|fault| fault.in_array(&name))?)?;
        }
    }
    if let Some((name, pack)) = packs.into_iter().next() {
        let words: &[&str] =
            if pack.len() == 3 { &["query", "key", "value"] } else { &["gate", "values"] };
        let missing: Vec<&str> = words
            .iter()
            .zip(&pack)
            .filter_map(|(part, array)| array.is_none().then_some(*part))
            .collect();
        return Err(Fault::Missing { name: format!("{} of {name}", missing.join(" and ")) });
    }
    Ok(out)
}

/// Query, key and value, or gate and values, one after the other along the first axis.
fn packed(parts: Vec<Array>) -> std::result::Result<Array, Fault> {
    let shape = parts[0].shape.clone();
    let dtype = if parts.iter().all(|part| part.dtype == parts[0].dtype) {
        parts[0].dtype
    } else {
        Dtype::F32
    };
    let count = parts.len();
    let mut data = Vec::with_capacity(count * parts[0].data.len());
    for part in parts {
        if part.shape != shape || shape.is_empty() {
            return Err(Fault::invalid(
                "parts of a packed array",
                format!("equal shapes, {shape:?}"),
                format!("{:?}", part.shape),
            ));
        }
        data.extend_from_slice(&part.data);
    }
    let mut shape = shape;
    shape[0] *= count;
    Ok(Array { shape, dtype, data })
}

/// An array with its timm name.
struct Placed {
    name: String,
    /// Its place in a packed array, and of how many: query, key and value, or gate and values.
    part: Option<(usize, usize)>,
    num_heads: Option<usize>,
    /// Why it is not needed.
    dropped: Option<&'static str>,
    array: Array,
}

impl Placed {
    fn whole(name: impl Into<String>, array: Array) -> Self {
        Self { name: name.into(), part: None, num_heads: None, dropped: None, array }
    }

    /// An array that no classifier reads.
    fn dropped(name: &str, why: &'static str) -> Self {
        let array = Array { shape: vec![0], dtype: Dtype::F32, data: Vec::new() };
        Self { dropped: Some(why), ..Self::whole(name, array) }
    }
}

/// Replaces a leading module path by another one, from a table of (theirs, timm's); the rest must be a leaf such as
/// `weight`.
fn replaced(name: &str, separator: char, table: &[(&str, &str)]) -> Option<String> {
    table.iter().find_map(|(theirs, timm)| {
        let leaf = name.strip_prefix(theirs)?;
        if leaf.is_empty() {
            return Some((*timm).to_owned());
        }
        let leaf = leaf.strip_prefix(separator)?;
        (!leaf.contains(separator)).then(|| format!("{timm}.{leaf}"))
    })
}

/// Splits `12.rest` (or `12/rest`) into the block number and the rest.
fn block(name: &str, separator: char) -> Option<(usize, &str)> {
    let (number, rest) = name.split_once(separator)?;
    // `+1` and `01` parse as numbers but are not how a block is named.
    let index: usize = number.parse().ok()?;
    (index.to_string() == number).then_some((index, rest))
}
