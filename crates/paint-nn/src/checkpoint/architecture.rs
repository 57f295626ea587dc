//! Which network a set of arrays belongs to, read off names and shapes.

mod swin;

use serde::Serialize;

use super::Checkpoint;
use paint_files::Fault;

use super::array::Array;
use super::error::{Error, Result};
use super::foreign;
use super::model_config::ModelConfig;
use super::names::NUM_HEADS;
use super::zero_shot::COSINE_HEAD;
pub use swin::SwinSizes;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "family", rename_all = "snake_case")]
pub enum Architecture {
    /// A vision transformer.
    Vit(VitSizes),
    /// A residual network.
    Resnet(ResnetSizes),
    /// A ConvNeXt.
    Convnext(ConvnextSizes),
    /// A Swin Transformer.
    Swin(SwinSizes),
    /// A known network that is not built here.
    Foreign {
        /// What it is.
        network: &'static str,
    },
    /// Something else.
    Unknown,
}

/// The sizes of a vision transformer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VitSizes {
    /// Width `D`.
    pub embed_dim: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads.
    pub num_heads: usize,
    /// Where the number of heads comes from: the weights do not show it.
    pub num_heads_from: HeadsFrom,
    /// Height and width of a patch.
    pub patch_size: [usize; 2],
    /// Channels of the input image.
    pub in_chans: usize,
    /// Tokens with a position, the class token included.
    pub num_tokens: usize,
    /// The side of the square of patches that have a position; none if they make no square.
    pub grid_side: Option<usize>,
    /// Width inside the MLP.
    pub mlp_hidden: usize,
    /// Number of classes; none without a head.
    pub num_classes: Option<usize>,
}

/// Where a number of heads comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadsFrom {
    /// `config.json`.
    Config,
    /// The layout of a Google checkpoint.
    Weights,
    /// One head for 64 channels, as every published ViT has.
    Assumed,
}

/// The sizes of a residual network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResnetSizes {
    /// Layers with weights, shortcuts not counted.
    pub depth: usize,
    /// Channels after the first convolution.
    pub width: usize,
    /// Whether the norms carry running statistics (batch norm) or not (group norm).
    pub running_statistics: bool,
    /// Number of classes.
    pub num_classes: usize,
}

/// The sizes of a ConvNeXt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConvnextSizes {
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage.
    pub dims: [usize; 4],
    /// Number of classes; none without a head.
    pub num_classes: Option<usize>,
}

impl Architecture {
    /// Finds the network of a checkpoint with timm names (see [`to_timm`](super::to_timm)). A ViT, ConvNeXt or Swin
    /// whose arrays contradict each other is an error; a network that is not known is not.
    pub fn detect(checkpoint: &Checkpoint, config: &ModelConfig) -> Result<Self> {
        if let Some(network) = foreign::network(checkpoint.iter().map(|(name, _)| name)) {
            return Ok(Self::Foreign { network });
        }
        if checkpoint.get(&swin::table(0)).is_some() {
            return swin::sizes(checkpoint).map(Self::Swin).map_err(Error::Architecture);
        }
        if checkpoint.get("patch_embed.proj.weight").is_some() {
            return vit(checkpoint, config).map(Self::Vit).map_err(Error::Architecture);
        }
        if checkpoint.get("stages.0.blocks.0.conv_dw.weight").is_some() {
            return convnext(checkpoint).map(Self::Convnext).map_err(Error::Architecture);
        }
        Ok(resnet(checkpoint).map_or(Self::Unknown, Self::Resnet))
    }

    /// The number of attention heads, if weights or configuration state it.
    pub fn stated_heads(&self) -> Option<usize> {
        match self {
            Self::Vit(sizes) if sizes.num_heads_from != HeadsFrom::Assumed => Some(sizes.num_heads),
            _ => None,
        }
    }
}

fn vit(checkpoint: &Checkpoint, config: &ModelConfig) -> std::result::Result<VitSizes, Fault> {
    let [embed_dim, in_chans, patch_h, patch_w] =
        shape(checkpoint, "patch_embed.proj.weight", "[D, channels, patch, patch]")?;
    let [_, num_tokens, width] = shape(checkpoint, "pos_embed", "[1, tokens, D]")?;
    expect("pos_embed", "width", embed_dim, width)?;
    let blocks = checkpoint.iter().filter(|(name, _)| is_block_norm(name)).count();
    let depth = (0..blocks)
        .take_while(|i| checkpoint.get(&format!("blocks.{i}.norm1.weight")).is_some())
        .count();
    if depth == 0 || blocks != depth {
        let found = format!("{blocks} of which the first {depth} follow each other");
        return Err(Fault::invalid("blocks", "at least one, numbered from 0 without gaps", found));
    }
    let [_, width] = shape(checkpoint, "blocks.0.mlp.fc1.weight", "[hidden, D]")?;
    expect("blocks.0.mlp.fc1.weight", "input width", embed_dim, width)?;
    let [_, mlp_hidden] = shape(checkpoint, "blocks.0.mlp.fc2.weight", "[D, hidden]")?;
    for i in 0..depth {
        let name = format!("blocks.{i}.attn.qkv.weight");
        let [rows, width] = shape(checkpoint, &name, "[3 D, D]")?;
        expect(&name, "rows", 3 * embed_dim, rows)?;
        expect(&name, "input width", embed_dim, width)?;
    }
    let num_classes = if checkpoint.get("head.weight").is_some() {
        let [classes, width] = shape(checkpoint, "head.weight", "[classes, D]")?;
        if width != 2 * embed_dim && !checkpoint.metadata.contains_key(COSINE_HEAD) {
            expect("head.weight", "input width", embed_dim, width)?;
        }
        Some(classes)
    } else {
        None
    };
    let stored = checkpoint.metadata.get(NUM_HEADS).and_then(|heads| heads.parse().ok());
    let (num_heads, num_heads_from) = match (stored, config.num_heads) {
        (Some(heads), _) => (heads, HeadsFrom::Weights),
        (None, Some(heads)) => (heads, HeadsFrom::Config),
        (None, None) => (embed_dim / 64, HeadsFrom::Assumed),
    };
    if num_heads == 0 || !embed_dim.is_multiple_of(num_heads) {
        let expected = format!(
            "a divisor of the width {embed_dim}; give num_heads in config.json or with --set model.num_heads=N"
        );
        let found = match num_heads_from {
            HeadsFrom::Assumed => "none, and no usual number for this width".to_owned(),
            _ => num_heads.to_string(),
        };
        return Err(Fault::invalid("num_heads", expected, found));
    }
    let patch_size = [patch_h, patch_w];
    Ok(VitSizes {
        embed_dim,
        depth,
        num_heads,
        num_heads_from,
        patch_size,
        in_chans,
        num_tokens,
        grid_side: grid_side(checkpoint, num_tokens),
        mlp_hidden,
        num_classes,
    })
}

/// The side of the square that rows of a position embedding leave: without the class token, without any, or without
/// all tokens that are no patches.
fn grid_side(checkpoint: &Checkpoint, rows: usize) -> Option<usize> {
    let count = |name: &str| {
        checkpoint.get(name).and_then(|array| array.shape.get(1)).copied().unwrap_or(0)
    };
    let class = count("cls_token");
    let all = class + count("dist_token") + count("reg_token");
    [class, 0, all].into_iter().find_map(|prefix| {
        let patches = rows.checked_sub(prefix)?;
        (patches > 0 && patches.isqrt().pow(2) == patches).then(|| patches.isqrt())
    })
}

fn is_block_norm(name: &str) -> bool {
    name.strip_prefix("blocks.").is_some_and(|rest| rest.ends_with(".norm1.weight"))
}

fn shape<const N: usize>(
    checkpoint: &Checkpoint,
    name: &str,
    expected: &str,
) -> std::result::Result<[usize; N], Fault> {
    let array = checkpoint.get(name).ok_or_else(|| Fault::Missing { name: name.to_owned() })?;
    <[usize; N]>::try_from(&array.shape[..])
        .ok()
        .filter(|axes| axes.iter().all(|n| *n > 0))
        .ok_or_else(|| {
            Fault::invalid("shape", expected, format!("{:?}", array.shape)).in_array(name)
        })
}

fn expect(name: &str, what: &str, expected: usize, found: usize) -> std::result::Result<(), Fault> {
    if expected == found {
        Ok(())
    } else {
        Err(Fault::invalid(what, expected.to_string(), found).in_array(name))
    }
}

fn convnext(checkpoint: &Checkpoint) -> std::result::Result<ConvnextSizes, Fault> {
    let (mut depths, mut dims) = ([0; 4], [0; 4]);
    for stage in 0..4 {
        let name = |block: usize| format!("stages.{stage}.blocks.{block}.conv_dw.weight");
        [dims[stage], _, _, _] = shape(checkpoint, &name(0), "[C, 1, 7, 7]")?;
        depths[stage] = (0..checkpoint.len())
            .take_while(|block| checkpoint.get(&name(*block)).is_some())
            .count();
    }
    let head = checkpoint.get("head.fc.weight").is_some();
    let classes = || shape(checkpoint, "head.fc.weight", "[classes, C]");
    let num_classes = head.then(classes).transpose()?.map(|[classes, _]: [usize; 2]| classes);
    Ok(ConvnextSizes { depths, dims, num_classes })
}

/// A stem `conv1`, stages `layer1`, `layer2`, ... and one final linear layer, as in torchvision and its CIFAR
/// relatives.
fn resnet(checkpoint: &Checkpoint) -> Option<ResnetSizes> {
    let &[width, _, _, _] = checkpoint.get("conv1.weight")?.shape.as_slice() else { return None };
    let in_stage = |name: &str| {
        name.strip_prefix("layer").is_some_and(|rest| rest.starts_with(char::is_numeric))
    };
    let shortcut = |name: &str| name.contains(".downsample.") || name.contains(".shortcut.");
    let convs = checkpoint
        .iter()
        .filter(|(name, array)| in_stage(name) && !shortcut(name) && array.shape.len() == 4)
        .count();
    let linear: Vec<&Array> = checkpoint
        .iter()
        .filter(|(name, array)| name.ends_with(".weight") && array.shape.len() == 2)
        .map(|(_, array)| array)
        .collect();
    let [head] = linear[..] else { return None };
    if convs == 0 {
        return None;
    }
    let running_statistics = checkpoint.iter().any(|(name, _)| name.ends_with(".running_mean"));
    Some(ResnetSizes { depth: convs + 2, width, running_statistics, num_classes: head.shape[0] })
}
