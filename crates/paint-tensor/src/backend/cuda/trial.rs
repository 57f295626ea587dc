//! Choosing among algorithms that may fail. A candidate that fails is passed over; only if all of them fail does the
//! first one's error reach the caller.

/// A later candidate must take less than this part of the time of an earlier one, so that two runs choose alike.
const CLEARLY: f32 = 0.97;

/// The first candidate that `run` accepts. There is at least one candidate.
pub(super) fn first_that_runs<C, E>(
    candidates: impl IntoIterator<Item = C>,
    run: impl Fn(&C) -> Result<(), E>,
) -> Result<C, E> {
    let mut first_error = None;
    for candidate in candidates {
        match run(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) => _ = first_error.get_or_insert(error),
        }
    }
    Err(first_error.expect("there is at least one candidate"))
}

/// The candidate that takes the least time, the earlier one of two that are close. There is at least one candidate.
pub(super) fn fastest<C, E>(
    candidates: impl IntoIterator<Item = C>,
    time: impl Fn(&C) -> Result<f32, E>,
) -> Result<C, E> {
    let (mut best, mut first_error) = (None, None);
    for candidate in candidates {
        match (time(&candidate), &best) {
            (Ok(time), Some((least, _))) if time >= least * CLEARLY => (),
            (Ok(time), _) => best = Some((time, candidate)),
            (Err(error), _) => _ = first_error.get_or_insert(error),
        }
    }
    match best {
        Some((_, candidate)) => Ok(candidate),
        None => Err(first_error.expect("there is at least one candidate")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates are their own times; a negative one fails with its value.
    fn time(candidate: i32) -> Result<f32, i32> {
        if candidate < 0 { Err(candidate) } else { Ok(candidate as f32) }
    }

    #[test]
    fn a_candidate_that_fails_is_passed_over() {
        assert_eq!(fastest([-1, 100, -2, 50, -3], |c| time(*c)), Ok(50));
        assert_eq!(first_that_runs([-1, -2, 7, 3], |c| time(*c).map(|_| ())), Ok(7));
    }

    #[test]
    fn the_first_error_is_reported_where_all_fail() {
        assert_eq!(fastest([-1, -2], |c| time(*c)), Err(-1));
        assert_eq!(first_that_runs([-4, -2], |c| time(*c).map(|_| ())), Err(-4));
    }

    #[test]
    fn a_later_candidate_must_win_clearly() {
        assert_eq!(fastest([100, 98, 99], |c| time(*c)), Ok(100));
        assert_eq!(fastest([100, 96, 94], |c| time(*c)), Ok(96));
    }
}
