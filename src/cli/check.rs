//! `hookgate check`: is this config good, and what does it not do?

use std::path::PathBuf;

use clap::Args;

use super::{Failure, load, print, serve};
use crate::{
    app::{BuildError, Shared, Snapshot},
    config::Overrides,
};

/// What `check` is told.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The config file.
    #[arg(default_value = "config/hookgate.yaml")]
    file: PathBuf,
}

impl Check {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = load(Some(&self.file), &Overrides::default())?;
        serve::warn(&config);
        let hooks = config.hooks.values().flatten().map(|it| it.hooks.len());
        let hooks: usize = hooks.sum();
        // Building shows what only the transports can know.
        super::block_on(async {
            match Snapshot::build(config, &Shared::default(), None) {
                Ok(_) => Ok(()),
                Err(BuildError::Config(error)) => Err(Failure::BadConfig(error)),
                Err(error @ (BuildError::Transport(_) | BuildError::Upstream(_))) => {
                    Err(Failure::Failed(error.to_string()))
                }
            }
        })?;
        let noun = if hooks == 1 { "hook" } else { "hooks" };
        print(&format!("{}: good, {hooks} {noun}", self.file.display()))
    }
}
