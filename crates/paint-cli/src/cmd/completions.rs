//! `paint completions`: what a shell needs to complete commands, flags and names.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::Cli;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  paint completions bash > ~/.local/share/bash-completion/completions/paint
  paint completions zsh > ~/.zfunc/_paint
  paint completions fish > ~/.config/fish/completions/paint.fish";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // Into memory first: the generator panics where nobody reads its output.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "paint", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
