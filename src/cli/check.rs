//! `hookgate check`: validates a config.

use std::path::PathBuf;

use clap::Args;

use super::{
    failure::Failure,
    output::{print, print_error},
    runtime::block_on,
    serve::print_warnings,
};
use crate::{
    config::{Config, HookSpec, Overrides, PolicySpec},
    hook, policy,
    state::{AppResources, Snapshot},
};

/// Command-line arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Path of the config file
    #[arg(default_value = "config/hookgate.yaml")]
    file: PathBuf,
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = Config::load(&self.file, &Overrides::default(), &hook::registry())?;
        print_warnings(&config);
        print_policy_notes(&config);
        let hooks = config
            .hooks
            .values()
            .flatten()
            .map(|group| group.hooks.len());
        let (hooks, policies) = (hooks.sum(), config.policies.len());
        // Building a snapshot checks what only the transports know.
        block_on(async {
            Snapshot::build(config, &AppResources::default(), None)?;
            Ok(())
        })?;
        let mut summary = count(hooks, "hook", "hooks");
        if policies > 0 {
            summary = format!("{summary}, {}", count(policies, "policy", "policies"));
        }
        Ok(print(&format!(
            "{}: valid, {summary}",
            self.file.display()
        ))?)
    }
}

/// Prints the limits of the policies in use.
fn print_policy_notes(config: &Config) {
    let hooks = config
        .hooks
        .values()
        .flatten()
        .flat_map(|group| &group.hooks);
    let builtin: Vec<PolicySpec> = hooks.filter_map(HookSpec::as_policy).collect();
    for spec in config.policies.iter().chain(&builtin) {
        let unseen = policy::find(&spec.policy).map_or("", |kind| kind.unseen);
        if !unseen.is_empty() {
            let (span, label) = (&spec.span, spec.label());
            print_error(&format!("note: {span}: policy `{label}`: {unseen}"));
        }
    }
}

/// Returns `1 hook` or `2 hooks`.
fn count(number: usize, singular: &str, plural: &str) -> String {
    let noun = if number == 1 { singular } else { plural };
    format!("{number} {noun}")
}
