//! `hookgate check`: is this config good, and what does it not do?

use std::path::PathBuf;

use clap::Args;

use super::{Failure, complain, load, print, serve};
use crate::{
    config::{Config, HookSpec, Overrides, PolicySpec},
    policy,
    state::{AppResources, BuildError, Snapshot},
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
        note_blind_policies(&config);
        let hooks = config.hooks.values().flatten().map(|it| it.hooks.len());
        let (hooks, policies) = (hooks.sum(), config.policies.len());
        // Building shows what only the transports can know.
        super::block_on(async {
            match Snapshot::build(config, &AppResources::default(), None) {
                Ok(_) => Ok(()),
                Err(BuildError::Config(error)) => Err(Failure::BadConfig(error)),
                Err(error) => Err(Failure::Failed(error.to_string())),
            }
        })?;
        let mut said = counted(hooks, "hook", "hooks");
        if policies > 0 {
            said = format!("{said}, {}", counted(policies, "policy", "policies"));
        }
        print(&format!("{}: good, {said}", self.file.display()))
    }
}

/// Says what policies do not see.
fn note_blind_policies(config: &Config) {
    let hooks = config.hooks.values().flatten().flat_map(|it| &it.hooks);
    let builtin: Vec<PolicySpec> = hooks.filter_map(HookSpec::as_policy).collect();
    for spec in config.policies.iter().chain(&builtin) {
        let kind = policy::find(&spec.policy);
        let unseen = kind.map_or("", |it| it.unseen);
        if !unseen.is_empty() {
            let (span, label) = (&spec.span, spec.label());
            complain(&format!("note: {span}: policy `{label}`: {unseen}"));
        }
    }
}

/// `1 hook`.
fn counted(number: usize, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{number} {noun}")
}
