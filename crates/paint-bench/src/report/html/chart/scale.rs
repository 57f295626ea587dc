//! Axes: round ticks around some values.

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    ticks: Ticks,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ticks {
    /// One at each multiple.
    Every(f64),
    /// At 1, 2 and 5 times each power of ten; `low` and `high` are logarithms.
    Logarithmic,
}

impl Scale {
    /// Round ends around some values.
    pub(crate) fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values);
        if low > high {
            return Self { low: 0.0, high: 1.0, ticks: Ticks::Every(0.5) };
        }
        let room = (high - low).max(high.abs() * 0.05).max(1e-9);
        let raw = room / 4.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
        let step = step.unwrap_or(10.0 * power);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        // Equal values on a tick get room below: above 100 percent there is nothing.
        let (low, high) = match (low < high, low >= step) {
            (true, _) => (low, high),
            (false, true) => (low - step, high),
            (false, false) => (low, low + step),
        };
        Self { low, high, ticks: Ticks::Every(step) }
    }

    /// From zero to a round end.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        Self { low: 0.0, ..Self::around(values.chain([0.0])) }
    }

    /// Powers of ten around some values, which must be above zero.
    pub(crate) fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        const MARGIN: f64 = 0.15;
        let (low, high) = ends(values.map(logarithm));
        let (low, high) = if low > high { (0.0, 0.0) } else { (low - MARGIN, high + MARGIN) };
        Self { low, high: high.max(low + 0.5), ticks: Ticks::Logarithmic }
    }

    /// The values at which the axis has a line and a number.
    pub(crate) fn ticks(self) -> Vec<f64> {
        match self.ticks {
            Ticks::Every(step) => {
                let count = ((self.high - self.low) / step).round() as usize;
                (0..=count).map(|i| self.low + i as f64 * step).collect()
            }
            Ticks::Logarithmic => {
                let powers = self.low.floor() as i32..=self.high.ceil() as i32;
                let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|d| d * 10_f64.powi(power)));
                all.filter(|value| (0.0..=1.0).contains(&self.at(*value))).collect()
            }
        }
    }

    /// Where a value lies, from 0 at the low end to 1 at the high one.
    pub(crate) fn at(self, value: f64) -> f64 {
        let value = match self.ticks {
            Ticks::Every(_) => value,
            Ticks::Logarithmic => logarithm(value),
        };
        (value - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE)
    }
}

fn logarithm(value: f64) -> f64 {
    value.max(1e-9).log10()
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

/// A number without idle zeros.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_every_value() {
        assert_eq!(Scale::around([61.3, 74.9].into_iter()).ticks(), [60.0, 65.0, 70.0, 75.0]);
        let flat = Scale::around([50.0].into_iter());
        assert!(flat.low <= 50.0 && flat.high >= 50.0 && flat.high > flat.low);
        assert_eq!(Scale::around([100.0, 100.0].into_iter()).high, 100.0);
        assert_eq!(Scale::from_zero([61.3, 74.9].into_iter()).ticks()[0], 0.0);
        let zero = Scale::around([0.0].into_iter());
        assert!(zero.low == 0.0 && zero.high > 0.0);
    }

    #[test]
    fn a_logarithmic_axis_has_ticks_inside_itself() {
        let scale = Scale::logarithmic([0.04, 0.9].into_iter());
        assert_eq!(scale.ticks(), [0.05, 0.1, 0.2, 0.5, 1.0]);
        assert!((scale.at(0.2) - f64::midpoint(scale.at(0.04), scale.at(1.0))).abs() < 1e-12);
        assert!(!Scale::logarithmic([3.0].into_iter()).ticks().is_empty());
    }
}
