//! A 5x7 bitmap font of capitals and digits, drawn at twice its size.

const SCALE: usize = 2;
const COLUMNS: usize = 5;
const ROWS: usize = 7;

/// The height of a line.
pub(super) const HEIGHT: usize = ROWS * SCALE;

/// Seven rows of five pixels, the leftmost in the highest of the five bits.
#[rustfmt::skip]
const GLYPHS: [(char, [u8; ROWS]); 36] = [
    ('A', [14, 17, 17, 31, 17, 17, 17]), ('B', [30, 17, 17, 30, 17, 17, 30]), ('C', [14, 17, 16, 16, 16, 17, 14]),
    ('D', [30, 17, 17, 17, 17, 17, 30]), ('E', [31, 16, 16, 30, 16, 16, 31]), ('F', [31, 16, 16, 30, 16, 16, 16]),
    ('G', [14, 17, 16, 23, 17, 17, 14]), ('H', [17, 17, 17, 31, 17, 17, 17]), ('I', [14, 4, 4, 4, 4, 4, 14]),
    ('J', [7, 2, 2, 2, 2, 18, 12]), ('K', [17, 18, 20, 24, 20, 18, 17]), ('L', [16, 16, 16, 16, 16, 16, 31]),
    ('M', [17, 27, 21, 21, 17, 17, 17]), ('N', [17, 25, 21, 21, 19, 17, 17]), ('O', [14, 17, 17, 17, 17, 17, 14]),
    ('P', [30, 17, 17, 30, 16, 16, 16]), ('Q', [14, 17, 17, 17, 21, 18, 13]), ('R', [30, 17, 17, 30, 20, 18, 17]),
    ('S', [15, 16, 16, 14, 1, 1, 30]), ('T', [31, 4, 4, 4, 4, 4, 4]), ('U', [17, 17, 17, 17, 17, 17, 14]),
    ('V', [17, 17, 17, 17, 17, 10, 4]), ('W', [17, 17, 17, 21, 21, 21, 10]), ('X', [17, 17, 10, 4, 10, 17, 17]),
    ('Y', [17, 17, 10, 4, 4, 4, 4]), ('Z', [31, 1, 2, 4, 8, 16, 31]), ('0', [14, 17, 19, 21, 25, 17, 14]),
    ('1', [4, 12, 4, 4, 4, 4, 14]), ('2', [14, 17, 1, 6, 8, 16, 31]), ('3', [31, 2, 4, 2, 1, 17, 14]),
    ('4', [2, 6, 10, 18, 31, 2, 2]), ('5', [31, 16, 30, 1, 1, 17, 14]), ('6', [6, 8, 16, 30, 17, 17, 14]),
    ('7', [31, 1, 2, 4, 8, 8, 8]), ('8', [14, 17, 17, 14, 17, 17, 14]), ('9', [14, 17, 17, 15, 1, 2, 12]),
];

/// The width of a line of text.
pub(super) fn width(text: &str) -> usize {
    text.chars().count() * (COLUMNS + 1) * SCALE
}

/// The black pixels `(x, y)` of a line of text; what has no glyph is blank.
pub(super) fn ink(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let glyphs = text.chars().enumerate().filter_map(|(place, letter)| {
        let letter = letter.to_ascii_uppercase();
        GLYPHS.iter().find(|glyph| glyph.0 == letter).map(|glyph| (place, glyph.1))
    });
    glyphs.flat_map(|(place, rows)| {
        let pixels = (0..ROWS * SCALE).flat_map(|y| (0..COLUMNS * SCALE).map(move |x| (x, y)));
        let is_ink =
            move |&(x, y): &(usize, usize)| rows[y / SCALE] >> (COLUMNS - 1 - x / SCALE) & 1 == 1;
        pixels.filter(is_ink).map(move |(x, y)| (place * (COLUMNS + 1) * SCALE + x, y))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_a_corruption_has_a_glyph_inside_its_box() {
        for corruption in paint_data::corruption::CORRUPTIONS {
            for letter in corruption.name.replace('_', "").chars() {
                let ink: Vec<_> = ink(&letter.to_string()).collect();
                assert!(!ink.is_empty(), "{letter}");
                assert!(ink.iter().all(|&(x, y)| x < COLUMNS * SCALE && y < HEIGHT), "{letter}");
            }
        }
        assert_eq!(ink("i").map(|(x, _)| x).min(), Some(2));
        assert_eq!(ink(" i").map(|(x, _)| x).min(), Some(2 + 12));
    }
}
