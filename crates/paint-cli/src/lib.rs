//! The `paint` command line, as a function for programs that offer it under another roof.
//!
//! Data goes to stdout, messages to stderr; `exit.rs` has the rule for exit codes.

#[macro_use]
mod message;

mod cmd;
mod deployment_flags;
mod exit;
mod flags;
mod grid_progress;
mod output;
mod place;
mod plan;
mod preset_flag;
mod process;
mod signals;
mod source;

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

pub use cmd::bench::bench;
pub use cmd::explain::{Explanation, explain};
pub use cmd::list::{Row, list};
pub use cmd::tune::tune;
use exit::Usage;
pub use exit::is_usage;
pub use output::told;

/// Keeps an image classifier accurate, without labels, while its input drifts
#[derive(Debug, Parser)]
#[command(name = "paint", version, after_help = EXAMPLES, after_long_help = HELP.as_str())]
struct Cli {
    /// Print no progress and no notes, only warnings and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  paint demo
  paint list methods
  paint explain paint
  paint adapt --weights model.safetensors --images new_images/ --state state.safetensors > predictions.csv
  paint bench --protocol embedded --methods source,tent,paint";

/// `paint --help`: the examples, then the exit codes.
static HELP: LazyLock<String> = LazyLock::new(|| format!("{EXAMPLES}\n\n{}", exit::HELP));

/// One row for each file of `cmd/`.
#[derive(Debug, Subcommand)]
enum Command {
    Adapt(cmd::adapt::Args),
    Bench(Box<cmd::bench::Args>),
    Cam(cmd::cam::Args),
    Completions(cmd::completions::Args),
    Corrupt(cmd::corrupt::Args),
    Data(cmd::data::Args),
    Demo(cmd::demo::Args),
    Explain(cmd::explain::Args),
    Inspect(cmd::inspect::Args),
    List(cmd::list::Args),
    Man(cmd::man::Args),
    Report(cmd::report::Args),
    Run(cmd::run::Args),
    Serve(Box<cmd::serve::Args>),
    State(cmd::state::Args),
    Stats(cmd::stats::Args),
    Train(Box<cmd::train::Args>),
    Tune(Box<cmd::tune::Args>),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Adapt(args) => cmd::adapt::run(&args),
            Self::Bench(args) => cmd::bench::run(&args),
            Self::Cam(args) => cmd::cam::run(&args),
            Self::Completions(args) => cmd::completions::run(&args),
            Self::Corrupt(args) => cmd::corrupt::run(&args),
            Self::Data(args) => cmd::data::run(args),
            Self::Demo(args) => cmd::demo::run(&args),
            Self::Explain(args) => cmd::explain::run(&args),
            Self::Inspect(args) => cmd::inspect::run(&args),
            Self::List(args) => cmd::list::run(&args),
            Self::Man(args) => cmd::man::run(&args),
            Self::Report(args) => cmd::report::run(&args),
            Self::Run(args) => cmd::run::run(&args),
            Self::Serve(args) => cmd::serve::run(&args),
            Self::State(args) => cmd::state::run(&args),
            Self::Stats(args) => cmd::stats::run(&args),
            Self::Train(args) => cmd::train::run(&args),
            Self::Tune(args) => cmd::tune::run(&args),
        }
    }
}

/// Runs the command line `args`, whose first word is the program's name, and returns its exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Cli { quiet, command } = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // A reader of stdout that went away is no failure.
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    if quiet {
        message::be_quiet();
    }
    let Err(error) = command.run() else { return 0 };
    if output::is_broken_pipe(&error) {
        return 0;
    }
    message::say(message::Kind::Error, format_args!("{}", output::told(&error)));
    exit::status(&error)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Every command with its help after the flags.
    fn helps(command: &clap::Command, name: &str, found: &mut Vec<(String, String)>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        found.push((name.to_owned(), help));
        for inner in command.get_subcommands() {
            helps(inner, &format!("{name} {}", inner.get_name()), found);
        }
    }

    #[test]
    fn the_arguments_of_every_command_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_has_examples_and_every_example_parses() {
        let mut found = Vec::new();
        helps(&Cli::command(), "paint", &mut found);
        for (name, help) in found {
            let examples: Vec<&str> =
                help.lines().filter_map(|line| line.strip_prefix("  paint ")).collect();
            assert!(help.starts_with("Examples:\n") && !examples.is_empty(), "{name}: {help}");
            for example in examples {
                let words = example.split(' ').take_while(|word| *word != ">");
                let parsed = Cli::try_parse_from(["paint"].into_iter().chain(words));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    /// The shared flags of a command and of those below it: name, then type, name of the value and help.
    fn flags(command: &clap::Command, found: &mut Vec<(String, [String; 3])>) {
        const SHARED: [&str; 15] = [
            "batch-size",
            "seed",
            "device",
            "precision",
            "threads",
            "resume",
            "overwrite",
            "preset",
            "set",
            "metric",
            "dry-run",
            "guard",
            "no-guard",
            "stream",
            "no-stream",
        ];
        for flag in command.get_arguments() {
            let Some(name) = flag.get_long().filter(|name| SHARED.contains(name)) else { continue };
            let kind = format!("{:?}", flag.get_value_parser().type_id());
            let value = format!("{:?}", flag.get_value_names());
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            found.push((format!("{} --{name}", command.get_name()), [kind, value, help]));
        }
        command.get_subcommands().for_each(|inner| flags(inner, found));
    }

    #[test]
    fn a_flag_has_one_type_and_one_meaning_in_every_command() {
        let mut found = Vec::new();
        flags(&Cli::command(), &mut found);
        let flag = |name: &str| name.split(" --").nth(1).unwrap_or_default().to_owned();
        for (name, declared) in &found {
            for (other, also) in &found {
                // The recipe of a training is another document.
                let is_recipe =
                    |name: &String| ["train --set", "train --preset"].contains(&name.as_str());
                let same = flag(name) == flag(other) && !is_recipe(name) && !is_recipe(other);
                assert!(!same || declared == also, "{name}: {declared:?}, {other}: {also:?}");
            }
        }
        let commands = found.iter().filter(|(name, _)| flag(name) == "threads").count();
        assert!(commands >= 7, "{found:?}");
    }
}
