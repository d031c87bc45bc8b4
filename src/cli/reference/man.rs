//! `hookgate man`: the man pages, as roff.

use clap::Command;
use clap_mangen::Man;

use crate::cli::{failure::Failure, output::print};

pub(in crate::cli) const EXAMPLES: &str = "Examples:
  hookgate man | man -l -
  hookgate man > /usr/local/share/man/man1/hookgate.1";

/// Prints the page of `command`, followed by those of its subcommands.
pub(in crate::cli) fn run(mut command: Command) -> Result<(), Failure> {
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
