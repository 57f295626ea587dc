//! The table of networks.

use super::cifar_resnet::CifarResnetConfig;
use super::convnext::{self, ConvnextConfig};
use super::residual;
use super::resnet::{ResnetConfig, StrideIn};
use super::swin::{self, SwinConfig};
use super::vit::{self, Vit, VitConfig};
use super::wide_resnet::WideResnetConfig;
use super::{Backbone, BuildOptions, Weights};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Misfit, Result};

/// What a network is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Attention over tokens.
    Transformer,
    /// Attention inside windows, in stages.
    Windows,
    /// Convolutions with norms over channels.
    Convolutional,
}

/// A row of [`BACKBONES`].
#[derive(Debug)]
pub struct BackboneEntry {
    /// The name on the command line and in `config.json`.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// What it is made of.
    pub family: Family,
    build: fn(&str, Weights, &BuildOptions) -> Result<Box<dyn Backbone>>,
    misfit: fn(&Checkpoint) -> Result<Misfit>,
    sizes: fn() -> Result<Sizes>,
}

/// The sizes of a network with its usual number of classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Height and width of the images it takes.
    pub image_size: [usize; 2],
    /// `C`.
    pub num_classes: usize,
    /// `D`.
    pub feature_dim: usize,
    /// Blocks.
    pub depth: usize,
    /// Numbers that training chooses.
    pub parameters: usize,
}

impl BackboneEntry {
    /// A new model. The number of classes is the checkpoint's own; a random model has its usual one.
    pub fn build(&self, weights: Weights, options: &BuildOptions) -> Result<Box<dyn Backbone>> {
        (self.build)(self.name, weights, options)
    }

    /// Its sizes; nothing is built.
    pub fn sizes(&self) -> Result<Sizes> {
        (self.sizes)()
    }

    /// How weights with timm's names differ from this network's, by names and shapes; nothing is built. Their number of
    /// classes is taken as it is.
    pub fn misfit(&self, weights: &Checkpoint) -> Result<Misfit> {
        (self.misfit)(weights)
    }
}

/// A row whose model is a ViT of the given sizes.
macro_rules! vit {
    ($name:literal, $summary:literal, $config:expr) => {
        BackboneEntry {
            name: $name,
            summary: $summary,
            family: Family::Transformer,
            build: |name, weights, options| {
                Ok(Box::new(Vit::build(name, $config, weights, options)?) as Box<dyn Backbone>)
            },
            misfit: |weights| Ok(vit::misfit($config, weights)),
            sizes: || Ok(vit::sizes(&$config)),
        }
    };
}

/// A row whose model is a convolutional network.
macro_rules! cnn {
    ($name:literal, $summary:literal, $config:expr) => {
        BackboneEntry {
            name: $name,
            summary: $summary,
            family: Family::Convolutional,
            build: |name, weights, options| {
                Ok(Box::new($config.build(name, weights, options)?) as Box<dyn Backbone>)
            },
            misfit: |weights| residual::misfit(&$config, weights),
            sizes: || residual::sizes(&$config),
        }
    };
}

/// A row whose model is a ConvNeXt of the given sizes.
macro_rules! convnext {
    ($name:literal, $summary:literal, $config:expr) => {
        BackboneEntry {
            name: $name,
            summary: $summary,
            family: Family::Convolutional,
            build: |name, weights, options| {
                Ok(Box::new($config.build(name, weights, options)?) as Box<dyn Backbone>)
            },
            misfit: |weights| convnext::misfit(&$config, weights),
            sizes: || convnext::sizes(&$config),
        }
    };
}

/// A row whose model is a Swin Transformer of the given sizes.
macro_rules! swin {
    ($name:literal, $summary:literal, $config:expr) => {
        BackboneEntry {
            name: $name,
            summary: $summary,
            family: Family::Windows,
            build: |name, weights, options| {
                Ok(Box::new($config.build(name, weights, options)?) as Box<dyn Backbone>)
            },
            misfit: |weights| swin::misfit(&$config, weights),
            sizes: || swin::sizes(&$config),
        }
    };
}

/// Every backbone, by name.
pub const BACKBONES: &[BackboneEntry] = &[
    vit!(
        "vit_tiny_patch4_32",
        "ViT-Tiny, 4x4 patches, 32x32 images (CIFAR)",
        VitConfig::tiny_patch4_32()
    ),
    vit!(
        "vit_tiny_patch16_224",
        "ViT-Tiny, 16x16 patches, 224x224 images",
        VitConfig::tiny_patch16_224()
    ),
    vit!(
        "deit_tiny_patch16_224",
        "DeiT-Tiny without distillation token",
        VitConfig::tiny_patch16_224()
    ),
    vit!(
        "vit_small_patch16_224",
        "ViT-Small, 16x16 patches, 224x224 images",
        VitConfig::small_patch16_224()
    ),
    vit!(
        "vit_base_patch16_224",
        "ViT-Base, 16x16 patches, 224x224 images (PAINT's)",
        VitConfig::base_patch16_224()
    ),
    vit!(
        "vit_large_patch16_224",
        "ViT-Large, 16x16 patches, 224x224 images",
        VitConfig::large_patch16_224()
    ),
    cnn!(
        "cifar_resnet20",
        "ResNet-20 with batch norm, 32x32 images",
        CifarResnetConfig::batch_norm(3)
    ),
    cnn!(
        "cifar_resnet32",
        "ResNet-32 with batch norm, 32x32 images",
        CifarResnetConfig::batch_norm(5)
    ),
    cnn!(
        "cifar_resnet44",
        "ResNet-44 with batch norm, 32x32 images",
        CifarResnetConfig::batch_norm(7)
    ),
    cnn!(
        "cifar_resnet56",
        "ResNet-56 with batch norm, 32x32 images",
        CifarResnetConfig::batch_norm(9)
    ),
    cnn!(
        "cifar_resnet26_gn",
        "ResNet-26 with group norm, 32x32 images",
        CifarResnetConfig::resnet26_gn()
    ),
    cnn!("resnet18", "ResNet-18, 224x224 images", ResnetConfig::resnet18()),
    cnn!(
        "resnet50",
        "ResNet-50, stride in the 3x3 convolutions, 224x224 images",
        ResnetConfig::resnet50(StrideIn::Conv3x3)
    ),
    cnn!(
        "resnet50_stride1x1",
        "ResNet-50, stride in the 1x1 convolutions, 224x224 images",
        ResnetConfig::resnet50(StrideIn::Conv1x1)
    ),
    cnn!(
        "wide_resnet28_10",
        "WideResNet-28-10, 32x32 images (RobustBench's Standard)",
        WideResnetConfig::wrn_28_10()
    ),
    cnn!("wide_resnet40_2", "WideResNet-40-2, 32x32 images", WideResnetConfig::wrn_40_2()),
    convnext!("convnext_tiny", "ConvNeXt-Tiny, 224x224 images", ConvnextConfig::tiny()),
    convnext!("convnext_small", "ConvNeXt-Small, 224x224 images", ConvnextConfig::small()),
    convnext!("convnext_base", "ConvNeXt-Base, 224x224 images", ConvnextConfig::base()),
    swin!(
        "swin_tiny_patch4_window7_224",
        "Swin-Tiny, 7x7 windows, 224x224 images",
        SwinConfig::tiny()
    ),
    swin!(
        "swin_small_patch4_window7_224",
        "Swin-Small, 7x7 windows, 224x224 images",
        SwinConfig::small()
    ),
    swin!(
        "swin_base_patch4_window7_224",
        "Swin-Base, 7x7 windows, 224x224 images",
        SwinConfig::base()
    ),
];

/// The row of a name.
pub fn find(name: &str) -> Result<&'static BackboneEntry> {
    BACKBONES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<&str> = BACKBONES.iter().map(|entry| entry.name).collect();
        Error::Argument {
            what: "backbone",
            expected: format!("one of {}", known.join(", ")),
            got: name.to_owned(),
        }
    })
}
