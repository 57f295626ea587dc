//! The table `guard`.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// When a guard acts. `sure`, `sure_in_runs` and `differ` rest on what PAINT and `keel` change on the embedded model
/// and four corruptions that no benchmark here uses; the others are set by judgement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Snapshots of good states. Default: 5.
    pub history: usize,
    /// Good steps between two snapshots. Default: 5.
    pub every: u64,
    /// The confidence from which the frozen model is sure of an image, and its answer stands where an image is
    /// predicted without a step. Default: 0.8.
    pub sure: f64,
    /// The same while classes come in runs, in steps too. Default: 0.5.
    pub sure_in_runs: f64,
    /// The largest share of images it is sure of that may be given another class in such a batch, before it answers all
    /// of them. Default: 0.15.
    pub differ: f64,
    /// The estimated gain in accuracy over the last steps from which the adapted model answers; -1 asks for none.
    /// Default: 0.
    pub least_gain: f64,
    /// The same where classes come in runs, where the method has a classifier of its own, of which no gain is believed,
    /// and where images are predicted without a step, there on the batch itself too. Default: 0.03.
    pub gain: f64,
    /// The largest share of images the frozen model is sure of that may be given another class, before a step that
    /// raised no estimate is undone. Default: 0.5.
    pub broken: f64,
    /// The largest share of one class, to the frozen model, in a batch that is learnt from. Default: 0.8.
    pub one_class: f64,
    /// How many times further than the steps before a step may move the parameters. Steps that stay long are accepted
    /// after a few. Default: 10.
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
            sure_in_runs: 0.5,
            differ: 0.15,
            least_gain: 0.0,
            gain: 0.03,
            broken: 0.5,
            one_class: 0.8,
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
        let is_gain = |value: f64| (-1.0..=1.0).contains(&value);
        let rules = [
            (is_share(self.sure), "sure must lie in [0, 1]"),
            (is_share(self.differ), "differ must lie in [0, 1]"),
            (is_gain(self.least_gain), "least_gain must lie in [-1, 1]"),
            (is_gain(self.gain), "gain must lie in [-1, 1]"),
            (is_share(self.sure_in_runs), "sure_in_runs must lie in [0, 1]"),
            (is_share(self.broken), "broken must lie in [0, 1]"),
            (is_share(self.one_class), "one_class must lie in [0, 1]"),
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
