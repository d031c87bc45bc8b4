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
    proof::GuardStatus,
    state::{AppResources, Snapshot, end_tasks},
};

/// Command-line arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Path of the config file
    #[arg(default_value = "config/hookgate.yaml")]
    file: PathBuf,
    /// Run the cases of `must_deny`, `must_allow` and `must_mask`, which starts hooks
    #[arg(long)]
    prove: bool,
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = Config::load(&self.file, &Overrides::default(), &hook::registry())?;
        print_warnings(&config);
        print_policy_notes(&config);
        print_unproven_guards(&config);
        let hooks = config
            .hooks
            .values()
            .flatten()
            .map(|group| group.hooks.len());
        let (hooks, policies) = (hooks.sum(), config.policies.len());
        // Building a snapshot checks what only the transports know.
        block_on(async {
            let resources = AppResources::default();
            let snapshot = Snapshot::build(config, &resources, None)?;
            if self.prove {
                prove(snapshot, &resources).await?;
            }
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

/// Runs the proofs of all guards, and waits until their processes have ended.
async fn prove(snapshot: Snapshot, resources: &AppResources) -> Result<(), Failure> {
    let proved = snapshot.prove(resources).await;
    let statuses: Vec<GuardStatus> = snapshot.proofs.statuses().collect();
    // Workers end with their snapshot.
    drop(snapshot);
    end_tasks(&resources.tasks).await;
    proved?;
    for status in statuses {
        let on = status.event.map(|event| format!(" on {event}"));
        let cases = count(status.cases, "case", "cases");
        print(&format!(
            "proven: `{}`{}, {cases}",
            status.name,
            on.unwrap_or_default()
        ))?;
    }
    Ok(())
}

/// Prints the guards that fail closed and have no proof.
fn print_unproven_guards(config: &Config) {
    for (event, hook) in config.guards_without_proof() {
        let (span, label) = (&hook.span, hook.label());
        print_error(&format!(
            "warning: {span}: hook `{label}` on {event} fails closed and has no `must_deny` or `must_mask`: nothing proves that it works"
        ));
    }
}

/// Returns `1 hook` or `2 hooks`.
fn count(number: usize, singular: &str, plural: &str) -> String {
    let noun = if number == 1 { singular } else { plural };
    format!("{number} {noun}")
}
