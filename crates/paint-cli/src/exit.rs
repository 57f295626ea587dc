//! The exit status: one rule for every command.
//!
//! | status | meaning | the user's next move |
//! |---|---|---|
//! | 0 | success | |
//! | 1 | the work failed: a file is missing or damaged, a disk is full, a model diverged | look at the files |
//! | 2 | the request is wrong: an unknown name or key, a value out of range, flags that are missing or contradict each other, an output folder that is taken | change the command |
//! | 3 | the work is done, and `--fail-on-harm` asked for this where adaptation did not help | use the frozen model, or another method |
//! | 128 + n | signal n ended the program | |

use std::error::Error;
use std::fmt;

use crate::signals::Interrupted;

/// The same for `paint --help`.
pub(crate) const HELP: &str = "\
Exit status:
  0        success
  1        the work failed: a file is missing or damaged, the disk is full, the model diverged
  2        the request is wrong: an unknown name or key, a value out of range, flags that are missing or
           contradict each other, an output folder that is taken
  3        adaptation did not help and the frozen model's answers were kept (adapt --fail-on-harm)
  128 + n  the program was ended by signal n (130 after Ctrl-C)";

/// A request that the argument parser cannot know to be wrong.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// The work is done, and adaptation did not help.
#[derive(Debug)]
pub(crate) struct Harm;

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("adaptation did not help here (--fail-on-harm)")
    }
}

impl Error for Harm {}

/// The status of a command that ended in `error`.
pub(crate) fn status(error: &anyhow::Error) -> u8 {
    if error.is::<Harm>() {
        return 3;
    }
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        return interrupted.status();
    }
    if is_usage(error) { 2 } else { 1 }
}

/// Whether an error is the request's fault.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(is_wrong_request)
}

/// Each library knows which of its errors are the request's fault.
fn is_wrong_request(cause: &(dyn Error + 'static)) -> bool {
    macro_rules! asked {
        ($($kind:ty),*) => {
            cause.is::<Usage>() $(|| cause.downcast_ref::<$kind>().is_some_and(<$kind>::is_usage))*
        };
    }
    asked!(
        paint_run::Error,
        paint_serve::Error,
        paint_train::Error,
        paint_methods::Error,
        paint_data::Error,
        paint_nn::Error,
        paint_nn::checkpoint::Error,
        paint_tensor::Error
    )
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn argument() -> paint_data::Error {
        paint_data::Error::Argument { what: "x", expected: "1".into(), got: "2".into() }
    }

    #[test]
    fn a_wrong_request_is_recognised_through_every_layer() {
        let usage = anyhow::Error::from(Usage("no".into()));
        let direct = anyhow::Error::from(argument());
        let run = anyhow::Error::from(paint_run::Error::from(argument()));
        let train = anyhow::Error::from(paint_train::Error::from(argument()));
        for error in [usage, direct, run, train] {
            assert_eq!(status(&error), 2, "{error}");
            let wrapped = Err::<(), _>(error).context("run.toml").context("more").unwrap_err();
            assert_eq!(status(&wrapped), 2, "{wrapped:#}");
        }
        let io = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(status(&anyhow::Error::from(io).context("weights")), 1);
        assert_eq!(status(&anyhow::Error::from(Harm)), 3);
    }
}
