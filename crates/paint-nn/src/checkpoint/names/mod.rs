//! One set of names for every publisher's ViT: timm's, which the models of this crate use.
//!
//! A convention is one file with one function, which says where an array goes and in what layout. Names it does not
//! know are kept, so that a model can refuse them by name.

mod google;
mod huggingface;
mod torchvision;

use std::collections::BTreeMap;
use std::fmt;

use super::Checkpoint;
use paint_files::{Dtype, Fault, abridged};

use super::array::Array;
use super::error::{Error, Result};

/// Whose names a checkpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// timm: `blocks.0.attn.qkv.weight`.
    Timm,
    /// Hugging Face transformers: `vit.encoder.layer.0.attention.attention.query.weight`.
    HuggingFace,
    /// torchvision: `encoder.layers.encoder_layer_0.self_attention.in_proj_weight`.
    Torchvision,
    /// Google's JAX code: `Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel`.
    Google,
    /// Not a known ViT; names are kept, except for wrapper prefixes.
    Other,
}

impl fmt::Display for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timm => "timm",
            Self::HuggingFace => "Hugging Face",
            Self::Torchvision => "torchvision",
            Self::Google => "Google JAX",
            Self::Other => "other",
        })
    }
}

impl Convention {
    /// The layer-norm epsilon that this publisher's ViT code uses unless its configuration says otherwise.
    pub const fn layer_norm_eps(self) -> f32 {
        match self {
            Self::HuggingFace => 1e-12,
            Self::Timm | Self::Torchvision | Self::Google | Self::Other => 1e-6,
        }
    }

    fn detect(checkpoint: &Checkpoint) -> Self {
        let any = |test: fn(&str) -> bool| checkpoint.iter().any(|(name, _)| test(name));
        if any(|name| name == "patch_embed.proj.weight") {
            Self::Timm
        } else if any(|name| name.ends_with("embeddings.patch_embeddings.projection.weight")) {
            Self::HuggingFace
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

    fn place(self, name: &str, array: Array) -> std::result::Result<Placed, Fault> {
        match self {
            Self::HuggingFace => Ok(huggingface::place(name, array)),
            Self::Torchvision => Ok(torchvision::place(name, array)),
            Self::Google => google::place(name, array),
            Self::Timm | Self::Other => Ok(Placed::whole(name, array)),
        }
    }
}

/// Metadata under which [`to_timm`] leaves a number of attention heads that only the original layout shows.
pub(super) const NUM_HEADS: &str = "num_heads";

/// What trainers wrap around a model and leave in its names.
const WRAPPERS: [&str; 7] =
    ["module.", "_orig_mod.", "model.", "backbone.", "network.", "opt/target/", "params/"];

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
    let mut packs: BTreeMap<String, [Option<Array>; 3]> = BTreeMap::new();
    for (name, array) in checkpoint {
        let placed = convention.place(&name, array).map_err(|fault| fault.in_array(&name))?;
        if let Some(heads) = placed.num_heads {
            out.metadata.insert(NUM_HEADS.to_owned(), heads.to_string());
        }
        let Some(third) = placed.third else {
            out.insert(placed.name, placed.array)?;
            continue;
        };
        let pack = packs.entry(placed.name.clone()).or_default();
        if pack[third].replace(placed.array).is_some() {
            return Err(Fault::Duplicate { name: abridged(&name) });
        }
        if pack.iter().all(Option::is_some) {
            let parts = std::mem::take(pack).into_iter().flatten().collect();
            packs.remove(&placed.name);
            let packed = packed(parts).map_err(|fault| fault.in_array(&placed.name))?;
            out.insert(placed.name, packed)?;
        }
    }
    if let Some((name, pack)) = packs.into_iter().next() {
        let missing: Vec<&str> = ["query", "key", "value"]
            .into_iter()
            .zip(&pack)
            .filter_map(|(part, array)| array.is_none().then_some(part))
            .collect();
        return Err(Fault::Missing { name: format!("{} of {name}", missing.join(" and ")) });
    }
    Ok(out)
}

/// Query, key and value one after the other along the first axis.
fn packed(parts: Vec<Array>) -> std::result::Result<Array, Fault> {
    let shape = parts[0].shape.clone();
    let dtype = if parts.iter().all(|part| part.dtype == parts[0].dtype) {
        parts[0].dtype
    } else {
        Dtype::F32
    };
    let mut data = Vec::with_capacity(3 * parts[0].data.len());
    for part in parts {
        if part.shape != shape || shape.is_empty() {
            return Err(Fault::invalid(
                "query, key and value",
                format!("equal shapes, {shape:?}"),
                format!("{:?}", part.shape),
            ));
        }
        data.extend_from_slice(&part.data);
    }
    let mut shape = shape;
    shape[0] *= 3;
    Ok(Array { shape, dtype, data })
}

/// An array with its timm name.
struct Placed {
    name: String,
    /// Its place in a packed qkv: 0 query, 1 key, 2 value.
    third: Option<usize>,
    num_heads: Option<usize>,
    array: Array,
}

impl Placed {
    fn whole(name: impl Into<String>, array: Array) -> Self {
        Self { name: name.into(), third: None, num_heads: None, array }
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
