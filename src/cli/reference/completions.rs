//! `hookgate completions`: completions for a shell.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::cli::{failure::Failure, output::print};

pub(in crate::cli) const EXAMPLES: &str =
    "Example: hookgate completions bash > /etc/bash_completion.d/hookgate";

/// Command-line arguments of `completions`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell to generate completions for
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub(in crate::cli) fn run(&self, mut command: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "hookgate", &mut script);
        Ok(print(String::from_utf8_lossy(&script).trim_end())?)
    }
}
