//! What a guard remembers from step to step: good snapshots, and how often it had to act.

use std::collections::VecDeque;

use super::config::Config;
use crate::Result;
use crate::method::{Method, State};
use crate::report::{Acted, Action, Reason};

/// How much of the running distance a step replaces.
const RATE: f64 = 0.3;
/// Steps before a jump can be told from a beginning.
const WARM: u64 = 5;

/// A guard's memory. A clone is a snapshot.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    /// Good states, the newest last.
    ring: VecDeque<State>,
    /// Steps learnt.
    steps: u64,
    /// The running distance that a step moves the parameters.
    moved: f64,
    /// Steps with harm since the last long good time.
    offences: u64,
    /// Good steps since the last offence.
    good: u64,
    /// Steps that the model stays frozen.
    pause: u64,
    /// Whether the last batch spoke against the adapted model.
    is_distrusted: bool,
}

impl Watch {
    pub(super) fn is_paused(&self) -> bool {
        self.pause > 0
    }

    /// One step of a pause.
    pub(super) fn wait(&mut self) -> Option<Acted> {
        self.pause -= 1;
        (self.pause == 0).then_some(Acted { action: Action::StartAgain, reason: Reason::TooOften })
    }

    /// Whether nothing has been learnt, so that the method is the frozen model.
    pub(super) fn is_fresh(&self) -> bool {
        self.steps == 0
    }

    /// Whether the adapted model is to answer.
    pub(super) fn is_trusted(&self) -> bool {
        !self.is_paused() && !self.is_distrusted
    }

    /// Whether a step is much longer than those before, which it then joins. A jump counts as the longest step that
    /// would be accepted, so that steps which stay long are accepted after a few; one that moved nothing or an infinite
    /// distance does not count.
    pub(super) fn is_jump(&mut self, moved: f64, most: f64) -> bool {
        if !moved.is_finite() {
            return true;
        }
        let longest = most * self.moved;
        let is_jump = self.steps >= WARM && self.moved > 0.0 && moved > longest;
        let counted = if is_jump { longest } else { moved };
        if self.moved == 0.0 {
            self.moved = counted;
        } else if counted > 0.0 {
            self.moved += RATE * (counted - self.moved);
        }
        self.steps += u64::from(!is_jump);
        is_jump
    }

    /// Judges a step by what speaks against it, and undoes it for that. One that was not learnt needs no undoing.
    pub(super) fn judge(
        &mut self,
        method: &mut dyn Method,
        config: &Config,
        (harm, is_learnt): (Option<Reason>, bool),
    ) -> Result<Option<Acted>> {
        self.is_distrusted = harm.is_some();
        match harm {
            _ if !is_learnt => Ok(None),
            Some(reason) => self.undo(method, config, reason).map(Some),
            None => self.gained(method, config).map(|()| None),
        }
    }

    fn gained(&mut self, method: &dyn Method, config: &Config) -> Result<()> {
        self.good += 1;
        if self.good >= config.pause {
            self.offences = 0;
        }
        if self.good.is_multiple_of(config.every) && config.history > 0 {
            self.ring.push_back(method.save()?);
            while self.ring.len() > config.history {
                self.ring.pop_front();
            }
        }
        Ok(())
    }

    /// Back to the last good state, or out for a while where that was not enough.
    fn undo(&mut self, method: &mut dyn Method, config: &Config, reason: Reason) -> Result<Acted> {
        (self.offences, self.good) = (self.offences + 1, 0);
        if self.offences >= config.patience {
            self.start_again(method)?;
            self.pause = config.pause;
            return Ok(Acted { action: Action::Freeze, reason });
        }
        let Some(state) = self.ring.pop_back() else {
            method.reset()?;
            return Ok(Acted { action: Action::StartAgain, reason });
        };
        method.load(&state)?;
        Ok(Acted { action: Action::RollBack, reason })
    }

    fn start_again(&mut self, method: &mut dyn Method) -> Result<()> {
        method.reset()?;
        *self = Self::default();
        Ok(())
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        for (at, snapshot) in self.ring.iter().enumerate() {
            state.nest(&format!("ring/{at}"), snapshot.clone());
        }
        let mut put = |name: &str, value: u64| state.counters.insert(name.to_owned(), value);
        put("snapshots", self.ring.len() as u64);
        put("steps", self.steps);
        put("moved", self.moved.to_bits());
        put("offences", self.offences);
        put("good", self.good);
        put("pause", self.pause);
        put("distrusted", u64::from(self.is_distrusted));
        state
    }

    pub(super) fn load(state: &State) -> Result<Self> {
        let snapshots = state.counter("snapshots")?;
        Ok(Self {
            ring: (0..snapshots).map(|at| state.part(&format!("ring/{at}"))).collect(),
            steps: state.counter("steps")?,
            moved: f64::from_bits(state.counter("moved")?),
            offences: state.counter("offences")?,
            good: state.counter("good")?,
            pause: state.counter("pause")?,
            is_distrusted: state.counter("distrusted")? > 0,
        })
    }
}

/// How far the network's parameters lie apart in two states of a method.
pub(super) fn distance(before: &State, after: &State) -> Result<f64> {
    let mut total = 0.0;
    for (name, now) in after.tensors.iter().filter(|(name, _)| name.starts_with("model/")) {
        if let Some(then) = before.tensors.get(name).filter(|then| then.shape() == now.shape()) {
            let apart = now.sub(then)?;
            total += f64::from(apart.mul(&apart)?.sum_all()?.item()?);
        }
    }
    Ok(total.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_refused_once_and_longer_steps_are_taken_after_a_few() {
        let mut watch = Watch::default();
        let is_jump = |watch: &mut Watch, moved| watch.is_jump(moved, 10.0);
        assert!(is_jump(&mut watch, f64::INFINITY) && is_jump(&mut watch, f64::NAN));
        assert!((0..WARM).all(|_| !is_jump(&mut watch, 1.0)));
        assert!(is_jump(&mut watch, 1e9) && !is_jump(&mut watch, 1.0));
        // Nothing to learn from for a while.
        assert!((0..30).all(|_| !is_jump(&mut watch, 0.0)));
        assert!(!is_jump(&mut watch, 2.0));
        let refused = (0..20).filter(|_| is_jump(&mut watch, 1000.0)).count();
        assert!((1..5).contains(&refused), "{refused}");
        assert!(!is_jump(&mut watch, 1000.0));
    }
}
