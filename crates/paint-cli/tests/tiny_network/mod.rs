//! A network that costs nothing, where what it predicts does not matter.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

#[path = "../../../paint-serve/tests/serve/tiny.rs"]
mod tiny;

/// Its weights, written once per test program.
pub(crate) fn weights() -> &'static str {
    static FILE: OnceLock<String> = OnceLock::new();
    FILE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny-network");
        fs::create_dir_all(&folder).unwrap();
        tiny::weights(&folder).to_str().unwrap().to_owned()
    })
}
