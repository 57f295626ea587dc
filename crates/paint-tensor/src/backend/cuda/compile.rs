//! Kernels from source to machine code, at run time, kept on disk.
//!
//! The cache is a folder of cubins named by the hash of everything that decides their content, each with its own hash
//! behind it: the driver is told no length, and would read past a file that was cut short. One that cannot be read or loaded is
//! compiled again; one that cannot be written costs time and nothing else.
#![expect(unsafe_code, reason = "every call into NVRTC is a foreign function")]

use std::ffi::CString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::nvrtc::{result, sys};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

const TYPES: &str = include_str!("kernels/types.cuh");

/// The compute capability of Hopper.
pub(super) const HOPPER: (i32, i32) = (9, 0);

/// One file of kernels and the constants it is compiled with.
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) defines: Vec<(&'static str, usize)>,
}

impl Source {
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.defines {
            let _ = writeln!(text, "#define {name} {value}");
        }
        text + TYPES + self.text
    }

    /// Machine code of this source for a GPU of this capability.
    pub(super) fn file(&self, capability: (i32, i32), cache: Option<&Path>) -> Cubin<'_> {
        let text = self.text();
        // Warpgroup products exist on Hopper alone, and only for code that asks for exactly it.
        let exact = if capability == HOPPER { "a" } else { "" };
        let architecture = format!("sm_{}{}{exact}", capability.0, capability.1);
        let path = cache.map(|folder| folder.join(file_name(self.name, &text, &architecture)));
        Cubin { source: self, text, architecture, path }
    }

    fn compile(&self, text: &str, architecture: &str) -> Result<Vec<u8>> {
        let failed = |error: result::NvrtcError| self.error(format!("{error:?}"));
        let text = CString::new(text).map_err(|_| self.error("a zero byte".to_owned()))?;
        let name = CString::new(self.name).map_err(|_| self.error("a zero byte".to_owned()))?;
        let program = Program(result::create_program(&text, Some(&name)).map_err(failed)?);
        let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
        // SAFETY: the program was created above.
        if let Err(error) = unsafe { result::compile_program(program.0, &options) } {
            // SAFETY: as above.
            let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
            let log: String =
                log.iter().map(|&c| c as u8 as char).take_while(|&c| c != '\0').collect();
            return Err(self.error(format!("{error:?}: {log}")));
        }
        let mut bytes = 0;
        // SAFETY: the program compiled; the size is written to a local.
        unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut bytes) }.result().map_err(failed)?;
        let mut image = vec![0_u8; bytes];
        // SAFETY: the buffer has the size NVRTC asked for.
        unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }
            .result()
            .map_err(failed)?;
        Ok(image)
    }

    fn error(&self, why: String) -> Error {
        Error::Gpu { what: format!("compiling {}", self.name), why }
    }
}

/// A source as it is compiled, and the place of the result on disk.
pub(super) struct Cubin<'a> {
    source: &'a Source,
    text: String,
    architecture: String,
    path: Option<PathBuf>,
}

impl Cubin<'_> {
    /// From the disk if it is there, else compiled and put there.
    pub(super) fn image(&self) -> Result<Vec<u8>> {
        match self.path.as_ref().and_then(|path| unsealed(std::fs::read(path).ok()?)) {
            Some(image) => Ok(image),
            None => self.fresh_image(),
        }
    }

    /// Compiled without looking at the disk, whose content is replaced.
    pub(super) fn fresh_image(&self) -> Result<Vec<u8>> {
        let image = self.source.compile(&self.text, &self.architecture)?;
        if let Some(path) = &self.path {
            keep(path, &image);
        }
        Ok(image)
    }
}

struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `create_program`, destroyed here alone.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn file_name(name: &str, text: &str, architecture: &str) -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both arguments are locals.
    let _ = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    let hash = Sha256::digest(format!("{architecture} nvrtc {major}.{minor}\n{text}"));
    let hex = hash[..16].iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("{name}-{architecture}-{hex}.cubin")
}

/// An image with its hash behind it.
fn sealed(image: &[u8]) -> Vec<u8> {
    [image, &Sha256::digest(image)].concat()
}

/// The image of a file, if it is whole.
fn unsealed(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let length = file.len().checked_sub(Sha256::output_size())?;
    let seal = file.split_off(length);
    (*seal == *Sha256::digest(&file)).then_some(file)
}

fn keep(path: &Path, image: &[u8]) {
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let Some(folder) = path.parent() else { return };
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("part{}-{writer}", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, sealed(image)))
        .and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _ = std::fs::remove_file(part);
    }
}

/// `$PAINT_CACHE_DIR`, or `paint` in the user's cache folder.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PAINT_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("paint")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/paint")))
        .map(|folder| folder.join("kernels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_image_comes_back_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("paint-kernels-{}", std::process::id()));
        let (path, image) = (folder.join("deep/a.cubin"), b"\x7fELF and so on".to_vec());
        keep(&path, &image);
        let file = std::fs::read(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.join("deep")).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(unsealed(file.clone()), Some(image.clone()));
        for damaged in [Vec::new(), image, file[..file.len() - 1].to_vec(), file[1..].to_vec()] {
            assert_eq!(unsealed(damaged), None);
        }
    }
}
