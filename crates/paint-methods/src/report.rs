//! What a guard did and why, for events and for the account at the end.

use std::collections::BTreeMap;
use std::fmt;

use paint_nn::state::State;
use serde::Serialize;

use crate::Result;

/// What a guard does about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The step was not made, or undone.
    Skip,
    /// The method went back to its last good snapshot.
    RollBack,
    /// The frozen model answers for a while, and nothing is learnt.
    Freeze,
    /// The method began again with the source model.
    StartAgain,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A loss, a parameter or a logit was not finite.
    NotFinite,
    /// To the frozen model nearly all images of the batch are of one class.
    NoVariety,
    /// The step moved the parameters much further than those before.
    Jump,
    /// Predictions differ from the frozen model's where that one is sure.
    Differs,
    /// Predictions fell into few classes, where the frozen model sees more.
    Collapse,
    /// The guard had to act too often.
    TooOften,
}

impl Action {
    const ALL: [Self; 4] = [Self::Skip, Self::RollBack, Self::Freeze, Self::StartAgain];
}

impl Reason {
    const ALL: [Self; 6] = [
        Self::NotFinite,
        Self::NoVariety,
        Self::Jump,
        Self::Differs,
        Self::Collapse,
        Self::TooOften,
    ];
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "skipped the step",
            Self::RollBack => "went back to the last good state",
            Self::Freeze => "froze the model for a while",
            Self::StartAgain => "started again",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFinite => "a number was not finite",
            Self::NoVariety => "nearly all images look like one class to the frozen model",
            Self::Jump => "the step was much larger than those before",
            Self::Differs => "predictions differ where the frozen model is sure",
            Self::Collapse => "predictions fell into few classes",
            Self::TooOften => "the guard had to act too often",
        })
    }
}

/// One thing that a guard did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Acted {
    /// What.
    pub action: Action,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Acted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.reason)
    }
}

/// What a guard says of the last step, and of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// What it did about the last step, if anything.
    pub acted: Option<Acted>,
    /// Whether the frozen model gave the last answer, for every image of the batch.
    pub frozen_answer: bool,
    /// The estimated accuracy of the frozen and the adapted model on the last step, in 0..1, if it can be estimated.
    pub estimate: Option<[f64; 2]>,
    /// Everything so far.
    pub account: Account,
}

/// Everything that a guard saw and did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// Steps.
    pub steps: u64,
    /// Images in them.
    pub images: u64,
    /// Images that the frozen model answered.
    pub frozen_images: u64,
    /// What was done, how often.
    pub acted: BTreeMap<Acted, u64>,
    /// Images for which accuracy was estimated.
    pub estimated: u64,
    /// The sums over those of the estimates: frozen model, adapted model, answers given.
    pub sums: [f64; 3],
}

impl Account {
    /// Counts a step of so many images, so many of them answered by the frozen model.
    pub(crate) fn count(
        &mut self,
        [images, frozen]: [usize; 2],
        estimate: Option<[f64; 2]>,
        acted: Option<Acted>,
    ) {
        self.steps += 1;
        self.images += images as u64;
        self.frozen_images += frozen as u64;
        if let Some([f, a]) = estimate {
            self.estimated += images as u64;
            let given = a + (f - a) * frozen as f64 / images as f64;
            let sums = self.sums.iter_mut().zip([f, a, given]);
            sums.for_each(|(sum, estimate)| *sum += estimate * images as f64);
        }
        if let Some(acted) = acted {
            *self.acted.entry(acted).or_default() += 1;
        }
    }

    /// The mean estimated accuracy of the frozen model, the adapted model and the answers given, in 0..1.
    pub fn estimates(&self) -> Option<[f64; 3]> {
        (self.estimated > 0).then(|| self.sums.map(|sum| sum / self.estimated as f64))
    }

    /// How often the guard acted.
    pub fn interventions(&self) -> u64 {
        self.acted.values().sum()
    }

    /// What happened after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut acted = self.acted.clone();
        for (what, count) in &earlier.acted {
            acted.entry(*what).and_modify(|now| *now -= count);
        }
        acted.retain(|_, count| *count > 0);
        let mut sums = self.sums;
        sums.iter_mut().zip(earlier.sums).for_each(|(sum, before)| *sum -= before);
        Self {
            steps: self.steps - earlier.steps,
            images: self.images - earlier.images,
            frozen_images: self.frozen_images - earlier.frozen_images,
            acted,
            estimated: self.estimated - earlier.estimated,
            sums,
        }
    }

    pub(crate) fn save(&self) -> State {
        let mut state = State::default();
        let mut put = |name: &str, value: u64| state.counters.insert(name.to_owned(), value);
        put("steps", self.steps);
        put("images", self.images);
        put("frozen_images", self.frozen_images);
        put("estimated", self.estimated);
        for (at, sum) in self.sums.iter().enumerate() {
            put(&format!("sum/{at}"), sum.to_bits());
        }
        for (Acted { action, reason }, count) in &self.acted {
            put(&format!("acted/{action:?}/{reason:?}"), *count);
        }
        state
    }

    pub(crate) fn load(state: &State) -> Result<Self> {
        let mut account = Self {
            steps: state.counter("steps")?,
            images: state.counter("images")?,
            frozen_images: state.counter("frozen_images")?,
            estimated: state.counter("estimated")?,
            ..Self::default()
        };
        for (at, sum) in account.sums.iter_mut().enumerate() {
            *sum = f64::from_bits(state.counter(&format!("sum/{at}"))?);
        }
        for action in Action::ALL {
            for reason in Reason::ALL {
                if let Some(&count) = state.counters.get(&format!("acted/{action:?}/{reason:?}")) {
                    account.acted.insert(Acted { action, reason }, count);
                }
            }
        }
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_comes_back_and_tells_what_is_new() {
        let act = |action, reason| Some(Acted { action, reason });
        let mut account = Account::default();
        account.count([50, 50], Some([0.6, 0.2]), act(Action::Skip, Reason::NoVariety));
        let before = Account::load(&account.save()).unwrap();
        assert_eq!(before, account);
        account.count([25, 0], Some([0.5, 0.7]), None);
        account.count([25, 25], None, act(Action::RollBack, Reason::Differs));
        let new = account.since(&before);
        assert_eq!((new.steps, new.images, new.frozen_images, new.interventions()), (2, 50, 25, 1));
        assert_eq!(new.acted.keys().next().map(|acted| acted.reason), Some(Reason::Differs));
        let [frozen, adapted, given] = account.estimates().unwrap();
        assert!((frozen - 42.5 / 75.0).abs() < 1e-12 && (adapted - 27.5 / 75.0).abs() < 1e-12);
        assert!((given - 47.5 / 75.0).abs() < 1e-12);
    }
}
