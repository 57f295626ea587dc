//! Ranges of numbers.

use std::fmt;

/// The numbers that a setting may take; infinity and NaN are never among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    low: End,
    high: End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Open,
    Inclusive(f64),
    Exclusive(f64),
}

/// `low` and more.
pub const fn at_least(low: f64) -> Interval {
    Interval { low: End::Inclusive(low), high: End::Open }
}

/// More than `low`.
pub const fn above(low: f64) -> Interval {
    Interval { low: End::Exclusive(low), high: End::Open }
}

/// `low` to `high`, both included.
pub const fn between(low: f64, high: f64) -> Interval {
    Interval { low: End::Inclusive(low), high: End::Inclusive(high) }
}

/// `low` to `high`, without `high` itself.
pub const fn from_to_below(low: f64, high: f64) -> Interval {
    Interval { low: End::Inclusive(low), high: End::Exclusive(high) }
}

/// More than `low`, up to `high`.
pub const fn above_to(low: f64, high: f64) -> Interval {
    Interval { low: End::Exclusive(low), high: End::Inclusive(high) }
}

impl Interval {
    /// Every number.
    pub const ALL: Self = Self { low: End::Open, high: End::Open };

    /// Whether a number is in it.
    pub fn contains(self, x: f64) -> bool {
        let low = match self.low {
            End::Open => true,
            End::Inclusive(low) => x >= low,
            End::Exclusive(low) => x > low,
        };
        let high = match self.high {
            End::Open => true,
            End::Inclusive(high) => x <= high,
            End::Exclusive(high) => x < high,
        };
        x.is_finite() && low && high
    }

    /// Whether it bounds anything.
    pub(crate) fn is_all(self) -> bool {
        self == Self::ALL
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low, self.high) {
            (End::Open, End::Open) => write!(f, "any number"),
            (End::Inclusive(low), End::Open) => write!(f, "{low} or more"),
            (End::Exclusive(low), End::Open) => write!(f, "above {low}"),
            (End::Open, End::Inclusive(high)) => write!(f, "{high} or less"),
            (End::Open, End::Exclusive(high)) => write!(f, "below {high}"),
            (End::Inclusive(low), End::Inclusive(high)) => write!(f, "{low} to {high}"),
            (End::Inclusive(low), End::Exclusive(high)) => write!(f, "{low} to below {high}"),
            (End::Exclusive(low), End::Inclusive(high)) => write!(f, "above {low}, to {high}"),
            (End::Exclusive(low), End::Exclusive(high)) => write!(f, "between {low} and {high}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_count_as_they_are_declared_and_no_interval_holds_nan() {
        assert!(at_least(0.0).contains(0.0) && !above(0.0).contains(0.0));
        assert!(between(0.0, 1.0).contains(1.0) && !from_to_below(0.0, 1.0).contains(1.0));
        for interval in [Interval::ALL, at_least(0.0), between(0.0, 1.0)] {
            for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert!(!interval.contains(x), "{interval}: {x}");
            }
        }
    }

    #[test]
    fn an_interval_reads_as_a_phrase() {
        assert_eq!(at_least(0.0).to_string(), "0 or more");
        assert_eq!(above(0.0).to_string(), "above 0");
        assert_eq!(between(-1.0, 1.0).to_string(), "-1 to 1");
        assert_eq!(from_to_below(0.0, 1.0).to_string(), "0 to below 1");
    }
}
