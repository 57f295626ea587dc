//! The sizes of a ViT, and the names, roles and shapes of the parameters that follow from them.

use super::variant::{HeadKind, Variant};
use crate::checkpoint::GlobalPool;
use crate::error::{Error, Result};
use crate::params::{Part, Role, Slot};

/// Sizes, in timm's words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VitConfig {
    /// Height and width of an image.
    pub image_size: [usize; 2],
    /// Side of a square patch.
    pub patch_size: usize,
    /// `D`.
    pub embed_dim: usize,
    /// The number of blocks.
    pub depth: usize,
    /// `h`.
    pub num_heads: usize,
    /// Width of the MLP over `D`.
    pub mlp_ratio: f32,
    /// `C`.
    pub num_classes: usize,
    /// What sets it apart from the plain ViT. Weights from a file bring their own.
    pub variant: Variant,
}

/// One parameter of the model to be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) shape: Vec<usize>,
}

impl VitConfig {
    /// Width 192 on 32x32 images, 10 classes.
    pub const fn tiny_patch4_32() -> Self {
        Self { image_size: [32, 32], patch_size: 4, num_classes: 10, ..Self::tiny_patch16_224() }
    }

    /// Width 192, 3 heads.
    pub const fn tiny_patch16_224() -> Self {
        Self::patch16_224(192, 12, 3)
    }

    /// Width 384, 6 heads.
    pub const fn small_patch16_224() -> Self {
        Self::patch16_224(384, 12, 6)
    }

    /// Width 768, 12 heads.
    pub const fn base_patch16_224() -> Self {
        Self::patch16_224(768, 12, 12)
    }

    /// Width 1024, depth 24, 16 heads.
    pub const fn large_patch16_224() -> Self {
        Self::patch16_224(1024, 24, 16)
    }

    const fn patch16_224(embed_dim: usize, depth: usize, num_heads: usize) -> Self {
        let (image_size, patch_size, mlp_ratio, num_classes) = ([224, 224], 16, 4.0, 1000);
        let variant = Variant::PLAIN;
        Self {
            image_size,
            patch_size,
            embed_dim,
            depth,
            num_heads,
            mlp_ratio,
            num_classes,
            variant,
        }
    }

    /// Rows and columns of patches.
    pub fn grid(&self) -> [usize; 2] {
        self.image_size.map(|side| side / self.patch_size)
    }

    /// `N`.
    pub fn num_patches(&self) -> usize {
        self.grid().iter().product()
    }

    fn hidden(&self) -> usize {
        (self.embed_dim as f32 * self.mlp_ratio).round() as usize
    }

    /// Refuses sizes that make no model.
    pub(super) fn check(&self) -> Result<()> {
        let positive = [
            self.patch_size,
            self.embed_dim,
            self.depth,
            self.num_heads,
            self.num_classes,
            self.hidden(),
        ];
        let refuse =
            |what, expected: String, got: String| Err(Error::Argument { what, expected, got });
        if positive.contains(&0) || self.image_size.contains(&0) {
            return refuse("ViT sizes", "sizes above zero".into(), format!("{self:?}"));
        }
        if self.image_size.iter().any(|side| side % self.patch_size != 0) {
            let sides = format!("multiples of {}, the side of a patch", self.patch_size);
            return refuse("image size", sides, format!("{:?}", self.image_size));
        }
        if !self.embed_dim.is_multiple_of(self.num_heads) {
            let width = format!("a multiple of {}, the number of heads", self.num_heads);
            return refuse("embed_dim", width, self.embed_dim.to_string());
        }
        let needs_class =
            matches!(self.variant.global_pool, GlobalPool::Token | GlobalPool::TokenAvg);
        if needs_class && !self.variant.class_token {
            let pool = format!("{:?} without one", self.variant.global_pool);
            return refuse("global_pool", "a class token to read".into(), pool);
        }
        Ok(())
    }

    /// Every parameter, in timm's order.
    pub(super) fn parameters(&self) -> Vec<Declaration> {
        let (d, p, variant) = (self.embed_dim, self.patch_size, &self.variant);
        let mut all = Declarations::default();
        let tokens = [
            ("cls_token", Role::ClsToken, usize::from(variant.class_token)),
            ("dist_token", Role::DistToken, usize::from(variant.dist_token())),
            ("reg_token", Role::RegToken, variant.reg_tokens),
            ("pos_embed", Role::PosEmbed, variant.prefix_positions() + self.num_patches()),
        ];
        for (name, role, count) in tokens.into_iter().filter(|(_, _, count)| *count > 0) {
            all.one(name.into(), role, &[1, count, d]);
        }
        all.one("patch_embed.proj.weight".into(), Role::PatchEmbed(Slot::Weight), &[d, 3, p, p]);
        if variant.patch_bias {
            all.one("patch_embed.proj.bias".into(), Role::PatchEmbed(Slot::Bias), &[d]);
        }
        if variant.norm_pre {
            all.layer("norm_pre", Role::StemNorm, &[d]);
        }
        (0..self.depth).for_each(|index| self.block(index, &mut all));
        if self.norms_tokens() {
            all.layer("norm", Role::FinalNorm, &[d]);
        }
        if variant.global_pool == GlobalPool::Map {
            all.one("attn_pool.latent".into(), Role::PoolToken, &[1, 1, d]);
            let hidden = self.hidden();
            let layers: [(&str, &[usize]); 5] = [
                ("q", &[d, d]),
                ("kv", &[2 * d, d]),
                ("proj", &[d, d]),
                ("mlp.fc1", &[hidden, d]),
                ("mlp.fc2", &[d, hidden]),
            ];
            all.layer("attn_pool.norm", Role::FinalNorm, &[d]);
            for (name, weight) in layers {
                all.layer(&format!("attn_pool.{name}"), Role::Pool, weight);
            }
        }
        if variant.fc_norm {
            all.layer("fc_norm", Role::FinalNorm, &[d]);
        }
        self.head(&mut all);
        all.0
    }

    /// Whether the tokens are normed before they are pooled.
    pub(super) fn norms_tokens(&self) -> bool {
        !self.variant.fc_norm && self.variant.global_pool != GlobalPool::AvgRaw
    }

    fn block(&self, index: usize, all: &mut Declarations) {
        let (d, hidden) = (self.embed_dim, self.hidden());
        let inner = if self.variant.gated { 2 * hidden } else { hidden };
        let layers: [(&str, Part, &[usize]); 6] = [
            ("norm1", Part::Norm1, &[d]),
            ("attn.qkv", Part::Qkv, &[3 * d, d]),
            ("attn.proj", Part::Proj, &[d, d]),
            ("norm2", Part::Norm2, &[d]),
            ("mlp.fc1", Part::Fc1, &[inner, d]),
            ("mlp.fc2", Part::Fc2, &[d, hidden]),
        ];
        for (layer, part, weight) in layers {
            let role = |slot| Role::Block { index, part, slot };
            all.layer(&format!("blocks.{index}.{layer}"), role, weight);
        }
        if self.variant.layer_scale {
            for (layer, part) in [("ls1", Part::Scale1), ("ls2", Part::Scale2)] {
                let role = Role::Block { index, part, slot: Slot::Weight };
                all.one(format!("blocks.{index}.{layer}.gamma"), role, &[d]);
            }
        }
    }

    fn head(&self, all: &mut Declarations) {
        let (d, classes) = (self.embed_dim, self.num_classes);
        let read = match (self.variant.head, self.variant.global_pool) {
            (HeadKind::Cosine { width, .. }, _) => width,
            (_, GlobalPool::TokenAvg) => 2 * d,
            _ => d,
        };
        all.layer("head", Role::Head, &[classes, read]);
        match self.variant.head {
            HeadKind::Linear | HeadKind::Cosine { projected: false, .. } => {}
            HeadKind::Distilled => all.layer("head_dist", Role::Head, &[classes, d]),
            HeadKind::Cosine { width, projected: true } => {
                all.one("head.proj.weight".into(), Role::Projection, &[width, d]);
            }
        }
    }
}

#[derive(Default)]
struct Declarations(Vec<Declaration>);

impl Declarations {
    fn one(&mut self, name: String, role: Role, shape: &[usize]) {
        self.0.push(Declaration { name, role, shape: shape.to_vec() });
    }

    /// A weight and a bias of its first axis.
    fn layer(&mut self, name: &str, role: impl Fn(Slot) -> Role, weight: &[usize]) {
        self.one(format!("{name}.weight"), role(Slot::Weight), weight);
        self.one(format!("{name}.bias"), role(Slot::Bias), &weight[..1]);
    }
}
