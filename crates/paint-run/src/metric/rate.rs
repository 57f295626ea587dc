//! Accuracy or error: two ways to write one figure.

/// How tables write the share of right predictions. Files of results always hold accuracies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rate {
    /// In percent, higher is better.
    #[default]
    Accuracy,
    /// 100 minus the accuracy, as most papers on test-time adaptation print; lower is better.
    Error,
}

impl Rate {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Accuracy, Self::Error];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Error => "error",
        }
    }

    /// Its name at the beginning of a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Accuracy => "Accuracy",
            Self::Error => "Error",
        }
    }

    /// The figure of an accuracy in percent.
    pub fn of(self, accuracy: f64) -> f64 {
        match self {
            Self::Accuracy => accuracy,
            Self::Error => 100.0 - accuracy,
        }
    }

    /// The figure of a difference of two accuracies.
    pub fn difference(self, accuracies: f64) -> f64 {
        match self {
            Self::Accuracy => accuracies,
            Self::Error => -accuracies,
        }
    }

    /// The better of two figures.
    pub fn better(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Accuracy => a.max(b),
            Self::Error => a.min(b),
        }
    }

    /// The worse of two figures.
    pub fn worse(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Accuracy => a.min(b),
            Self::Error => a.max(b),
        }
    }
}
