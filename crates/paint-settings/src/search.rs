//! Where a better value of a setting is looked for.

use std::fmt;

/// The values that a search for the best setting goes through: a part of what the setting may take, evenly spread over
/// its length or over its orders of magnitude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    low: f64,
    high: f64,
    scale: Scale,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// From `low` to `high`, evenly.
pub const fn linear(low: f64, high: f64) -> Search {
    Search { low, high, scale: Scale::Linear }
}

/// From `low` to `high`, each order of magnitude alike; `low` is above 0.
pub const fn logarithmic(low: f64, high: f64) -> Search {
    Search { low, high, scale: Scale::Logarithmic }
}

impl Search {
    /// Other ends than the declared ones, on the scale that suits them: by orders of magnitude where there are some.
    pub fn between(low: f64, high: f64) -> Self {
        if low > 0.0 && high >= 10.0 * low { logarithmic(low, high) } else { linear(low, high) }
    }

    /// The ends.
    pub fn ends(self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// The value at a share of the way from the low end to the high one, to three significant digits: more would say
    /// nothing, and less could not be told apart.
    pub fn value(self, share: f64) -> f64 {
        let share = share.clamp(0.0, 1.0);
        let exact = match self.scale {
            Scale::Linear => self.low + share * (self.high - self.low),
            Scale::Logarithmic => self.low * (self.high / self.low).powf(share),
        };
        format!("{exact:.2e}").parse().unwrap_or(exact)
    }

    /// How far a value lies on the way from the low end to the high one, 0 to 1.
    pub fn share(self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_way_become_values_and_come_back() {
        let rate = logarithmic(1e-5, 1e-1);
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|share| rate.value(share)), [1e-5, 1e-4, 1e-3, 0.1]);
        assert_eq!(rate.value(0.1), 2.51e-5);
        assert_eq!(linear(-1.0, 1.0).value(0.75), 0.5);
        for search in [rate, linear(-1.0, 1.0)] {
            for share in [0.0, 0.3, 1.0] {
                assert!(
                    (search.share(search.value(share)) - share).abs() < 2e-3,
                    "{search} {share}"
                );
            }
        }
        // A preset may lie outside; nothing is searched there.
        assert_eq!([rate.share(0.0), rate.share(2.0), rate.value(7.0)], [0.0, 1.0, 0.1]);
    }

    #[test]
    fn ends_of_other_magnitude_are_searched_by_magnitude() {
        assert_eq!(Search::between(1e-4, 1e-2), logarithmic(1e-4, 1e-2));
        assert_eq!(Search::between(0.2, 0.6), linear(0.2, 0.6));
        assert_eq!(Search::between(0.0, 0.6), linear(0.0, 0.6));
    }
}
