//! What one row of logits says about one image.

/// The prediction of one image, and how good it was where its class is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The class with the largest logit, the first of equals.
    pub predicted: usize,
    /// Its probability.
    pub confidence: f64,
    /// Whether it is the true class.
    pub correct: Option<bool>,
    /// `−ln p` of the true class.
    pub nll: Option<f64>,
}

impl Score {
    /// The score of one row of logits, which must be finite and not empty; `label` must be one of its columns.
    pub fn of(logits: &[f32], label: Option<usize>) -> Self {
        let logit = |class: usize| f64::from(logits[class]);
        let predicted = (1..logits.len())
            .fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
        let top = logit(predicted);
        let log_sum = top + (0..logits.len()).map(|c| (logit(c) - top).exp()).sum::<f64>().ln();
        Self {
            predicted,
            confidence: (top - log_sum).exp(),
            correct: label.map(|label| label == predicted),
            nll: label.map(|label| log_sum - logit(label)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_logits_gives_class_confidence_and_nll() {
        // exp: 1, 3, 1 of 5.
        let row = [0.0, 3.0_f32.ln(), 0.0];
        let score = Score::of(&row, Some(2));
        assert_eq!((score.predicted, score.correct), (1, Some(false)));
        assert!((score.confidence - 0.6).abs() < 1e-7, "{score:?}");
        assert!((score.nll.unwrap() - 5.0_f64.ln()).abs() < 1e-7, "{score:?}");
    }

    #[test]
    fn equal_logits_predict_the_first_class_and_huge_ones_do_not_overflow() {
        assert_eq!(Score::of(&[2.0, 2.0], None).predicted, 0);
        let score = Score::of(&[3e38, -3e38], Some(1));
        assert_eq!(score.confidence, 1.0);
        assert!(score.nll.unwrap().is_finite());
    }
}
