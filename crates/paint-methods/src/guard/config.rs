//! The table `guard`.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// When a guard acts. `differ` and `changed` lie above what PAINT shows on the embedded model and four corruptions that no
/// benchmark here uses; the others are set by judgement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Snapshots of good states. Default: 5.
    pub history: usize,
    /// Good steps between two snapshots. Default: 5.
    pub every: u64,
    /// The confidence from which the frozen model is sure of an image. Default: 0.8.
    pub sure: f64,
    /// The largest share of such images that may be given another class before the step is undone.
    /// Default: 0.15.
    pub differ: f64,
    /// The largest share of all images that may be such and given another class, in the long run, before the frozen model
    /// answers. Default: 0.03.
    pub changed: f64,
    /// The largest share of one class, to the frozen model, in a batch that is learnt from. Default: 0.8.
    pub one_class: f64,
    /// How far the estimated accuracy may stay below the frozen model's before that one answers. Default: 0.02.
    pub margin: f64,
    /// How many times further than the steps before a step may move the parameters. Default: 10.
    pub jump: f64,
    /// As many interventions in a row freeze the model. Default: 3.
    pub patience: u64,
    /// For as many steps. Default: 20.
    pub pause: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            history: 5,
            every: 5,
            sure: 0.8,
            differ: 0.15,
            changed: 0.03,
            one_class: 0.8,
            margin: 0.02,
            jump: 10.0,
            patience: 3,
            pause: 20,
        }
    }
}

impl Config {
    /// Refuses values without a meaning.
    pub fn check(&self) -> Result<()> {
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        let rules = [
            (is_share(self.sure), "sure must lie in [0, 1]"),
            (is_share(self.differ), "differ must lie in [0, 1]"),
            (is_share(self.changed), "changed must lie in [0, 1]"),
            (is_share(self.one_class), "one_class must lie in [0, 1]"),
            (is_share(self.margin), "margin must lie in [0, 1]"),
            (self.jump > 1.0, "jump must be above 1"),
            (self.every > 0, "every must be 1 or more"),
            (self.patience > 0, "patience must be 1 or more"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, why)) => Err(Error::Config { method: "guard", why: why.to_owned() }),
            None => Ok(()),
        }
    }
}
