//! What can stand around a method: a stream that takes images as they come, and a guard.

use crate::build_args::BuildArgs;
use crate::guard::{self, Guard};
use crate::method::{Method, State};
use crate::stream::{self, Stream};
use crate::{Result, without};

/// What stands around a method. The guard is inside: it judges the method alone, and the stream corrects whichever
/// model answers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wrap {
    /// Images as they come; none gives the method each batch as it is.
    pub stream: Option<stream::Config>,
    /// The guard, if there is one.
    pub guard: Option<guard::Config>,
}

impl Wrap {
    /// Refuses settings without a meaning.
    pub fn check(&self) -> Result<()> {
        self.stream.as_ref().map_or(Ok(()), stream::Config::check)?;
        self.guard.as_ref().map_or(Ok(()), guard::Config::check)
    }

    /// Puts `method`, which was built from the same `args`, inside.
    pub fn around(
        &self,
        mut method: Box<dyn Method>,
        args: &BuildArgs<'_>,
    ) -> Result<Box<dyn Method>> {
        if let Some(config) = self.guard {
            method = Box::new(Guard::new(method, args, config)?);
        }
        if let Some(config) = self.stream {
            method = Box::new(Stream::new(method, args, config)?);
        }
        Ok(method)
    }

    /// A state without what was saved by a wrapper that is not here.
    #[must_use]
    pub fn fitted(&self, mut state: State) -> State {
        if self.guard.is_none() {
            state = without(&state, guard::PART);
        }
        if self.stream.is_none() {
            state = without(&state, stream::PART);
        }
        state
    }
}
