//! What the tests of these commands share: the program, the embedded model and its images as files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use paint_data::{Image, NpyWriter};

#[path = "../tiny_network/mod.rs"]
mod tiny_network;

const SIDE: usize = 32;
const COLUMNS: usize = 40;

/// The embedded file of a crate.
pub(crate) fn asset(of: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("assets").join(name)
}

/// The embedded model.
pub(crate) fn trained_weights() -> String {
    text(&asset("paint-run", "vit_tiny_patch4_32_cifar10/model.safetensors"))
}

/// The network of [`tiny_network`].
pub(crate) fn weights() -> String {
    tiny_network::weights().to_owned()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub(crate) fn paint() -> Command {
    Command::new(env!("CARGO_BIN_EXE_paint"))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One of the embedded images.
pub(crate) fn image(mosaic: &Image, index: usize) -> Image {
    let row = COLUMNS * SIDE * 3;
    let corner = index / COLUMNS * SIDE * row + index % COLUMNS * SIDE * 3;
    let lines = (0..SIDE).map(|y| corner + y * row);
    let pixels = lines.flat_map(|at| &mosaic.pixels()[at..at + SIDE * 3]).copied().collect();
    Image::new(SIDE, SIDE, pixels).unwrap()
}

pub(crate) fn mosaic() -> Image {
    Image::open(&asset("paint-data", "cifar10_test_1000/images.webp")).unwrap()
}

/// The first images and labels as arrays.
pub(crate) fn write_arrays(folder: &Path, count: usize) -> String {
    let write = |name: &str, shape: &[usize], bytes: &[u8]| {
        let mut file = BufWriter::new(File::create(folder.join(name)).unwrap());
        let mut array = NpyWriter::new(&mut file, shape).unwrap();
        array.write(bytes).unwrap();
        array.finish().unwrap();
    };
    let mosaic = mosaic();
    let pixels: Vec<u8> = (0..count).flat_map(|i| image(&mosaic, i).into_pixels()).collect();
    let labels = fs::read(asset("paint-data", "cifar10_test_1000/labels.bin")).unwrap();
    write("images.npy", &[count, SIDE, SIDE, 3], &pixels);
    write("labels.npy", &[count], &labels[..count]);
    text(&folder.join("images.npy"))
}

/// A labelled folder of the first images, one subfolder a class, called as `name` says.
pub(crate) fn write_folder(folder: &Path, count: usize, name: impl Fn(usize) -> String) -> String {
    let (mosaic, labels) =
        (mosaic(), fs::read(asset("paint-data", "cifar10_test_1000/labels.bin")).unwrap());
    for (i, &label) in labels[..count].iter().enumerate() {
        let class = folder.join(name(usize::from(label)));
        fs::create_dir_all(&class).unwrap();
        image(&mosaic, i).write_png(File::create(class.join(format!("{i}.png"))).unwrap()).unwrap();
    }
    text(folder)
}
