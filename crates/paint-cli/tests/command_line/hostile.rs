//! Requests that once took the memory or the stack.

use std::process::Command;

use crate::{paint, told};

#[test]
fn a_key_of_thousands_of_parts_is_refused() {
    let key = vec!["a"; 20_000].join(".");
    for command in [
        &["run", "--method", "source", "--dataset", "embedded", "--weights", "embedded"][..],
        &["bench", "--protocol", "embedded", "--methods", "source"],
        &["train", "--dataset", "embedded", "--backbone", "cifar_resnet20"],
        &["cam"],
    ] {
        let output = paint(command).args(["--set", &format!("{key}=1")]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", told(&output));
        assert!(told(&output).contains("at most 8 parts"), "{command:?}: {}", told(&output));
    }
}

/// Room for the threads of a large machine, and none for a file without an end.
#[test]
#[cfg(target_os = "linux")]
fn a_file_without_an_end_does_not_fill_the_memory() {
    let limited = |args: &str| {
        let script = format!("ulimit -v 4000000; exec {} {args}", env!("CARGO_BIN_EXE_paint"));
        Command::new("sh").args(["-c", &script]).output().unwrap()
    };
    let bench = "bench --methods source --protocol";
    for args in ["run --config /dev/zero", &format!("{bench} /dev/zero")] {
        let output = limited(args);
        assert_eq!(output.status.code(), Some(1), "{args}: {}", told(&output));
        assert!(told(&output).contains("at most 67108864 bytes"), "{args}: {}", told(&output));
    }
}
