//! The sizes of a ViT, and the names, roles and shapes of the parameters that follow from them.

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
        Self { image_size, patch_size, embed_dim, depth, num_heads, mlp_ratio, num_classes }
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
        (self.embed_dim as f32 * self.mlp_ratio) as usize
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
        let refuse = |expected: &str| {
            Err(Error::Argument {
                what: "ViT sizes",
                expected: expected.to_owned(),
                got: format!("{self:?}"),
            })
        };
        if positive.contains(&0) || self.image_size.contains(&0) {
            return refuse("sizes above zero");
        }
        if self.image_size.iter().any(|side| side % self.patch_size != 0) {
            return refuse("an image of whole patches");
        }
        if !self.embed_dim.is_multiple_of(self.num_heads) {
            return refuse("a width that the heads divide");
        }
        Ok(())
    }

    /// Every parameter, in timm's order.
    pub(super) fn parameters(&self) -> Vec<Declaration> {
        let (d, p) = (self.embed_dim, self.patch_size);
        let mut all = Vec::new();
        let mut declare = |name: String, role: Role, shape: &[usize]| {
            all.push(Declaration { name, role, shape: shape.to_vec() });
        };
        declare("cls_token".into(), Role::ClsToken, &[1, 1, d]);
        declare("pos_embed".into(), Role::PosEmbed, &[1, 1 + self.num_patches(), d]);
        declare("patch_embed.proj.weight".into(), Role::PatchEmbed(Slot::Weight), &[d, 3, p, p]);
        declare("patch_embed.proj.bias".into(), Role::PatchEmbed(Slot::Bias), &[d]);
        for index in 0..self.depth {
            let layers: [(&str, Part, &[usize]); 6] = [
                ("norm1", Part::Norm1, &[d]),
                ("attn.qkv", Part::Qkv, &[3 * d, d]),
                ("attn.proj", Part::Proj, &[d, d]),
                ("norm2", Part::Norm2, &[d]),
                ("mlp.fc1", Part::Fc1, &[self.hidden(), d]),
                ("mlp.fc2", Part::Fc2, &[d, self.hidden()]),
            ];
            for (layer, part, weight) in layers {
                let role = |slot| Role::Block { index, part, slot };
                declare(format!("blocks.{index}.{layer}.weight"), role(Slot::Weight), weight);
                declare(format!("blocks.{index}.{layer}.bias"), role(Slot::Bias), &weight[..1]);
            }
        }
        declare("norm.weight".into(), Role::FinalNorm(Slot::Weight), &[d]);
        declare("norm.bias".into(), Role::FinalNorm(Slot::Bias), &[d]);
        declare("head.weight".into(), Role::Head(Slot::Weight), &[self.num_classes, d]);
        declare("head.bias".into(), Role::Head(Slot::Bias), &[self.num_classes]);
        all
    }
}
