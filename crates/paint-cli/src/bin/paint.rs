//! The `paint` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(paint_cli::main(std::env::args_os()))
}
