//! What `adapt` and `serve` put to work: a network, a method, and what stands between them and the images.

use std::path::Path;

use paint_run::Draft;
use paint_run::deployment::AUTO;

use crate::flags::{NetworkFlags, SetFlag, WrapFlags};
use crate::preset_flag::PresetFlag;
use crate::source::SourceArgs;

/// How a model is deployed.
#[derive(Debug, clap::Args)]
pub(crate) struct DeploymentFlags {
    #[command(flatten)]
    pub(crate) network: NetworkFlags,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    wrap: WrapFlags,
    #[command(flatten)]
    pub(crate) preset: PresetFlag,
    #[command(flatten)]
    set: SetFlag,
}

impl DeploymentFlags {
    /// What was typed, for these weights and this method, or the one of `--preset`, or the best for the network.
    pub(crate) fn draft(&self, weights: &Path, method: Option<&str>) -> anyhow::Result<Draft> {
        let mut draft = Draft::default();
        draft.set("model.weights", weights.display().to_string())?;
        if let Some(method) = method {
            draft.set("method.name", method)?;
        }
        self.network.apply_to_deployment(&mut draft)?;
        self.source.apply(&mut draft)?;
        self.preset.apply(&mut draft, Some(AUTO))?;
        self.set.apply(&mut draft)?;
        SetFlag::check_weights(&draft, weights)?;
        self.wrap.apply(&mut draft, true)?;
        Ok(draft)
    }

    /// Images per step.
    pub(crate) fn batch_size(&self) -> usize {
        self.network.batch_size.unwrap_or(50) as usize
    }
}
