//! `hookgate completions` and `hookgate man`: the reference of all commands.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use super::{failure::Failure, output::print};

pub(super) const COMPLETIONS_EXAMPLES: &str =
    "Example: hookgate completions bash > /etc/bash_completion.d/hookgate";

/// Command-line arguments of `completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Shell to generate completions for
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, mut command: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "hookgate", &mut script);
        Ok(print(String::from_utf8_lossy(&script).trim_end())?)
    }
}

pub(super) const MAN_EXAMPLES: &str = "Examples:
  hookgate man | man -l -
  hookgate man > /usr/local/share/man/man1/hookgate.1

The page of `hookgate` is followed by those of its commands, such as hookgate-serve(1).";

/// Prints the page of `command`, followed by those of its subcommands.
pub(super) fn print_man_pages(mut command: Command) -> Result<(), Failure> {
    // Names subcommands by their full name, such as `hookgate audit verify`.
    command.build();
    let mut roff = Vec::new();
    render(&command, &mut roff)?;
    Ok(print(String::from_utf8_lossy(&roff).trim_end())?)
}

fn render(command: &Command, roff: &mut Vec<u8>) -> Result<(), Failure> {
    let title = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    Man::new(command.clone()).title(title).render(roff)?;
    let subcommands = command.get_subcommands();
    for subcommand in subcommands.filter(|command| command.get_name() != "help") {
        render(subcommand, roff)?;
    }
    Ok(())
}
