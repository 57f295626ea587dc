//! Our pixels for `bench/compare_images.py`: reads `PATH [WIDTH HEIGHT FILTER]` lines, tab-separated, and writes for
//! each the width and height (little-endian u32) and the RGB bytes; width 0 if the file was refused, with the reason
//! on stderr.

use std::{
    error::Error,
    io::{BufWriter, Write as _, stderr, stdin, stdout},
    path::Path,
};

use paint_data::{Image, image::Filter};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split('\t').collect();
        match pixels(&fields)? {
            Ok(image) => {
                out.write_all(&(image.width() as u32).to_le_bytes())?;
                out.write_all(&(image.height() as u32).to_le_bytes())?;
                out.write_all(image.pixels())?;
            }
            Err(error) => {
                writeln!(stderr(), "{error}")?;
                out.write_all(&[0; 8])?;
            }
        }
    }
    Ok(out.flush()?)
}

fn pixels(fields: &[&str]) -> Result<paint_data::Result<Image>, Box<dyn Error>> {
    Ok(match *fields {
        [path] => Image::open(Path::new(path)),
        [path, width, height, filter] => {
            let filter = match filter {
                "bilinear" => Filter::Bilinear,
                "bicubic" => Filter::Bicubic,
                other => return Err(format!("unknown filter {other:?}").into()),
            };
            let (width, height) = (width.parse()?, height.parse()?);
            Image::open(Path::new(path)).and_then(|image| image.resize(width, height, filter))
        }
        _ => return Err(format!("expected 1 or 4 fields, got {}", fields.len()).into()),
    })
}
