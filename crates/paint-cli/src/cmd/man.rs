//! `paint man`: a manual page for the program and for each command.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::Cli;

/// Write manual pages: paint.1, paint-run.1 and so on
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder for the pages
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  paint man --out ~/.local/share/man/man1";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    paint_files::create_folder(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let mut program = Cli::command();
    program.build();
    let pages = write(&program, "paint", &args.out)?;
    note!("written: {pages} pages in {}", args.out.display());
    Ok(())
}

/// Writes the page of a command and of those below it; how many there are.
fn write(command: &clap::Command, name: &str, out: &Path) -> anyhow::Result<usize> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    paint_data::write_atomically(&out.join(format!("{name}.1")), |file| file.write_all(&page))?;
    let mut pages = 1;
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        pages += write(inner, &format!("{name}-{}", inner.get_name()), out)?;
    }
    Ok(pages)
}
