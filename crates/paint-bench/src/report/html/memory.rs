//! The prompt memory at the end of a run: how alike its keys are.

use std::fmt::Write as _;

/// Cosine similarities of keys, each with the number of its prompt.
pub(super) fn key_similarity(keys: &[(u64, Vec<f32>)]) -> String {
    const CELL: f64 = 26.0;
    const HEAD: f64 = 34.0;
    let n = keys.len() as f64;
    let side = HEAD + CELL * n;
    let mut svg = format!(
        "<svg class=\"matrix\" style=\"max-width:{:.0}px\" viewBox=\"0 0 {side:.0} {side:.0}\" role=\"img\" aria-label=\"similarity of keys\">",
        (side * 1.3).min(620.0)
    );
    for (i, (id, key)) in keys.iter().enumerate() {
        let at = HEAD + CELL * i as f64;
        let middle = at + CELL / 2.0;
        let _ = write!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{id}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{id}</text>",
            HEAD - 8.0,
            HEAD - 8.0,
            middle + 4.0
        );
        for (j, (other, theirs)) in keys.iter().enumerate() {
            let cosine = cosine(key, theirs);
            let share = (cosine.max(0.0) * 85.0) as u32;
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{at:.1}\" width=\"{1:.1}\" height=\"{1:.1}\" rx=\"3\" style=\"fill:color-mix(in srgb,var(--heat) {share}%,var(--card))\"><title>prompts {id} and {other}: {cosine:.3}</title></rect>",
                HEAD + CELL * j as f64,
                CELL - 2.0
            );
        }
    }
    svg + "</svg>"
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_like_itself_and_unlike_what_is_orthogonal() {
        assert!((cosine(&[3.0, 4.0], &[6.0, 8.0]) - 1.0).abs() < 1e-12);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
        let svg = key_similarity(&[(0, vec![1.0, 0.0]), (4, vec![0.0, 1.0])]);
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains("prompts 0 and 4: 0.000"), "{svg}");
    }
}
