//! The cache, with closures in the place of compiler and driver; and the compiler, where there is one.

use std::cell::Cell;

use super::*;
use crate::backend::cuda::modules::Kernels;
use crate::backend::cuda::{attention, gelu_product};

const TARGET: Target = Target { capability: (8, 0), compiler: (13, 0) };

fn source(text: &'static str, defines: Vec<Define>) -> Source {
    Source { name: "some", text, defines }
}

/// An empty folder of this test's own.
fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("paint-kernels-{}-{test}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn an_image_comes_back_intact_or_not_at_all() {
    let (folder, image) = (folder("sealed"), b"\x7fELF and so on".to_vec());
    let path = folder.join("deep/a.cubin");
    store(&path, &image);
    let file = std::fs::read(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.join("deep")).unwrap().count(), 1);
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(unsealed(file.clone()), Some(image.clone()));
    for damaged in [Vec::new(), image, file[..file.len() - 1].to_vec(), file[1..].to_vec()] {
        assert_eq!(unsealed(damaged), None);
    }
}

#[test]
fn whatever_decides_the_machine_code_decides_the_file_name() {
    let name = |text, defines, target| {
        let source = source(text, defines);
        source.cubin(target, Some(Path::new("cache"))).path.expect("there is a cache")
    };
    let first = name("a", vec![("N", 1)], TARGET);
    assert_eq!(first, name("a", vec![("N", 1)], TARGET));
    let hopper = Target { capability: HOPPER, ..TARGET };
    let others = [
        name("b", vec![("N", 1)], TARGET),
        name("a", vec![("N", 2)], TARGET),
        name("a", vec![("M", 1)], TARGET),
        name("a", vec![("N", 1)], hopper),
        name("a", vec![("N", 1)], Target { compiler: (13, 1), ..TARGET }),
    ];
    assert!(others.iter().all(|other| *other != first), "{others:?}");
    assert!(others[3].to_string_lossy().contains("sm_90a"), "{others:?}");
}

#[test]
fn a_source_is_compiled_once_and_again_when_its_file_is_damaged_or_refused() {
    let folder = folder("cached");
    let source = source("text", Vec::new());
    let cubin = source.cubin(TARGET, Some(&folder));
    let compiled = Cell::new(0);
    let load = |accepts: &dyn Fn(&[u8]) -> bool| {
        let compile = || {
            compiled.set(compiled.get() + 1);
            Ok(vec![compiled.get()])
        };
        let load = |image: &[u8]| {
            let (what, why) = ("loading".to_owned(), "refused".to_owned());
            accepts(image).then(|| image.to_vec()).ok_or(Error::Gpu { what, why })
        };
        cubin.load_or(load, compile)
    };
    let any = |_: &[u8]| true;
    assert_eq!(load(&any).unwrap(), [1]);
    assert_eq!(load(&any).unwrap(), [1], "from the disk");
    let path = cubin.path.as_ref().expect("there is a cache");
    std::fs::write(path, b"half a fi").unwrap();
    assert_eq!(load(&any).unwrap(), [2], "a damaged file is replaced");
    assert_eq!(load(&|image| image != [2]).unwrap(), [3], "as is one that the driver refuses");
    assert_eq!(load(&any).unwrap(), [3]);
    assert!(load(&|_| false).is_err(), "a new image that is refused is an error");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_cache_that_cannot_be_written_costs_a_compilation_each_time() {
    let file = folder("file");
    std::fs::write(&file, b"no folder").unwrap();
    let source = source("text", Vec::new());
    let cubin = source.cubin(TARGET, Some(&file));
    for _ in 0..2 {
        assert_eq!(cubin.load_or(|image| Ok(image.to_vec()), || Ok(vec![7])).unwrap(), [7]);
    }
    std::fs::remove_file(file).unwrap();
}

/// The compiler needs no GPU, so a mistake in a kernel shows on any machine that has it.
#[test]
fn every_file_compiles_where_the_compiler_is() {
    // SAFETY: it only tries to open a library.
    if !unsafe { sys::is_culib_present() } {
        eprintln!("skipped: no libnvrtc on this machine");
        return;
    }
    let compiles = |source: &Source, capability| {
        let architecture = Target::here(capability).architecture();
        let image = source.compile(&source.text(), &architecture);
        assert!(!image.unwrap_or_else(|error| panic!("{architecture}: {error}")).is_empty());
    };
    for (source, _) in Kernels::signatures() {
        compiles(&source, (8, 0));
        compiles(&source, HOPPER);
    }
    for (source, _) in attention::signatures().into_iter().chain(gelu_product::signatures()) {
        compiles(&source, HOPPER);
    }
}
