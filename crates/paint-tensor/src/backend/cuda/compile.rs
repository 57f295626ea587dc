//! Kernels from source to machine code, at run time, kept on disk.
//!
//! The cache is a folder of cubins named by the hash of everything that decides their content. Each file ends with a
//! hash of the machine code, because the driver takes no length and would read past the end of a truncated file. A file
//! that cannot be read or loaded is compiled again; failing to write one costs time and nothing else.
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

/// A constant that a kernel file is compiled with.
pub(super) type Define = (&'static str, usize);

/// One file of kernels and the constants it is compiled with.
pub(super) struct Source {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) defines: Vec<Define>,
}

/// What machine code is compiled for, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) capability: (i32, i32),
    /// Major and minor version of NVRTC.
    pub(super) compiler: (i32, i32),
}

impl Target {
    /// A GPU of this capability and the compiler of this machine.
    pub(super) fn here(capability: (i32, i32)) -> Self {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both arguments are locals.
        let _ = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        Self { capability, compiler: (major, minor) }
    }

    fn architecture(self) -> String {
        let (major, minor) = self.capability;
        // Warpgroup products exist on Hopper alone, and only in code compiled for exactly that architecture.
        let exact = if self.capability == HOPPER { "a" } else { "" };
        format!("sm_{major}{minor}{exact}")
    }
}

impl Source {
    /// The whole text that is compiled.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.defines {
            let _ = writeln!(text, "#define {name} {value}");
        }
        text + TYPES + self.text
    }

    /// The machine code of this source for a target, and its place in the cache.
    pub(super) fn cubin(&self, target: Target, cache: Option<&Path>) -> Cubin<'_> {
        let (text, architecture) = (self.text(), target.architecture());
        let path = cache.map(|folder| folder.join(file_name(self.name, &text, target)));
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
    /// Gives `load` the cached image; compiles a new one if there is none or `load` refuses it.
    pub(super) fn load<T>(&self, load: impl Fn(&[u8]) -> Result<T>) -> Result<T> {
        self.load_or(load, || self.source.compile(&self.text, &self.architecture))
    }

    fn load_or<T>(
        &self,
        load: impl Fn(&[u8]) -> Result<T>,
        compile: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<T> {
        let cached = self.path.as_ref().and_then(|path| unsealed(std::fs::read(path).ok()?));
        if let Some(loaded) = cached.and_then(|image| load(&image).ok()) {
            return Ok(loaded);
        }
        let image = compile()?;
        if let Some(path) = &self.path {
            store(path, &image);
        }
        load(&image)
    }
}

struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `create_program`, destroyed here alone.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn file_name(name: &str, text: &str, target: Target) -> String {
    let (architecture, (major, minor)) = (target.architecture(), target.compiler);
    let hash = Sha256::digest(format!("{architecture} nvrtc {major}.{minor}\n{text}"));
    let hex = hash[..16].iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("{name}-{architecture}-{hex}.cubin")
}

/// An image followed by its hash.
fn sealed(image: &[u8]) -> Vec<u8> {
    [image, &Sha256::digest(image)].concat()
}

/// The image of a file, if it is intact.
fn unsealed(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let length = file.len().checked_sub(Sha256::output_size())?;
    let seal = file.split_off(length);
    (*seal == *Sha256::digest(&file)).then_some(file)
}

fn store(path: &Path, image: &[u8]) {
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
mod tests;
