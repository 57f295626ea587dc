//! A contact sheet: one image under the corruptions (rows) and severities (columns), the clean image first.

use paint_data::{Image, image::Filter};

use super::{Job, font};

/// The side of the square that holds an image.
const CELL: usize = 96;
const GAP: usize = 4;
const PAPER: u8 = 255;

/// The drawn sheet; `index` is the image's place in its dataset, which decides its draws.
pub(super) fn draw(job: &Job, image: &Image, index: usize) -> paint_data::Result<Image> {
    let names: Vec<String> =
        job.corruptions.iter().map(|corruption| corruption.name.replace('_', " ")).collect();
    let margin = names.iter().map(|name| font::width(name)).max().unwrap_or(0) + 2 * GAP;
    let header = font::HEIGHT + 2 * GAP;
    let width = margin + (1 + job.severities.len()) * (CELL + GAP);
    let height = header + names.len() * (CELL + GAP);
    let mut sheet = Sheet { width, pixels: vec![PAPER; width * height * 3] };

    let left = |column: usize| margin + column * (CELL + GAP);
    sheet.write("clean", left(0), GAP);
    for (column, severity) in job.severities.iter().enumerate() {
        sheet.write(&severity.to_string(), left(column + 1), GAP);
    }
    for (row, (corruption, name)) in job.corruptions.iter().zip(&names).enumerate() {
        let top = header + row * (CELL + GAP);
        sheet.write(name, GAP, top + (CELL - font::HEIGHT) / 2);
        sheet.place(&fitted(image)?, left(0), top);
        for (column, &severity) in job.severities.iter().enumerate() {
            let corrupted = job.corrupt(image, corruption, severity, index)?;
            sheet.place(&fitted(&corrupted)?, left(column + 1), top);
        }
    }
    Image::new(width, height, sheet.pixels)
}

/// The image with its long side at [`CELL`].
fn fitted(image: &Image) -> paint_data::Result<Image> {
    let long = image.width().max(image.height());
    let side = |side: usize| (side * CELL / long).max(1);
    image.resize(side(image.width()), side(image.height()), Filter::Bilinear)
}

struct Sheet {
    width: usize,
    pixels: Vec<u8>,
}

impl Sheet {
    fn place(&mut self, image: &Image, left: usize, top: usize) {
        for (y, row) in image.pixels().chunks_exact(image.width() * 3).enumerate() {
            let at = ((top + y) * self.width + left) * 3;
            self.pixels[at..at + row.len()].copy_from_slice(row);
        }
    }

    fn write(&mut self, text: &str, left: usize, top: usize) {
        for (x, y) in font::ink(text) {
            let at = ((top + y) * self.width + left + x) * 3;
            self.pixels[at..at + 3].fill(0);
        }
    }
}
