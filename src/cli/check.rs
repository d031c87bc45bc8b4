//! `hookgate check`: validates a config.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{
    failure::Failure,
    output::{count, print, print_error},
    runtime::{block_on, until_signal},
    serve::config_source,
};
use crate::{
    auth::MAX_RESERVED_OUTPUT,
    config::{Config, HookMode, HookSpec, Overrides, PolicySpec},
    dialect::{self, RequestField},
    event::EventName,
    hook,
    invisible_char::escape_invisible,
    policy,
    proof::GuardStatus,
    protocol::{self, ToolFamily, ToolNameOverride, ToolNames},
    state::{AppResources, BuildError, ConfigSource, RevisionError, Snapshot, end_tasks},
};

/// Command-line arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Path of the config file
    #[arg(
        value_name = "FILE",
        default_value = "hookgate.yaml",
        conflicts_with = "config"
    )]
    file: PathBuf,
    /// Path of the config file, as for other commands
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run the cases of `must_deny`, `must_allow` and `must_mask`, which starts hooks
    #[arg(long)]
    prove: bool,
    /// Print the names of tools that mean the same, as matchers of hooks use them
    #[arg(long)]
    tool_names: bool,
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let file = self.config.unwrap_or(self.file);
        let config = Config::load(&file, &Overrides::default(), &hook::registry())?;
        print_hosted_tools(&config);
        print_token_bounds(&config);
        print_shadow_problems(&config);
        if self.tool_names || maps_tool_names(&config) {
            print_tool_names(&hook::tool_names(&config))?;
        }
        let (hooks, policies) = (config.enabled_hooks().count(), config.policies.len());
        let source = rollout_source(&file, &config)?;
        // Building a snapshot checks what only the transports can check.
        block_on(until_signal(async {
            let resources = AppResources::default();
            let mut snapshots = vec![Snapshot::build(config, &resources, None, None)?];
            if let (Some(source), Some(snapshot)) = (source, snapshots.first()) {
                match snapshot.build_candidate(&source, &resources) {
                    // The gateway may keep its revisions on another machine.
                    Err(BuildError::Rollout {
                        span,
                        error: error @ RevisionError::Unknown(_),
                    }) => {
                        print_error(&format!("warning: {span}: rollout: {error}"));
                    }
                    candidate => snapshots.extend(candidate?),
                }
            }
            let mut printed = Vec::new();
            for note in snapshots.iter().flat_map(config_notes) {
                if !printed.contains(&note) {
                    print_error(&note);
                    printed.push(note);
                }
            }
            if self.prove {
                prove(snapshots, &resources).await?;
            }
            Ok(())
        }))?;
        let mut summary = count(hooks, "hook", "hooks");
        if policies > 0 {
            summary = format!("{summary}, {}", count(policies, "policy", "policies"));
        }
        Ok(print(&format!("{}: valid, {summary}", file.display()))?)
    }
}

/// Returns the source from which `serve` reads the config that is rolled out, if there is one.
fn rollout_source(file: &Path, config: &Config) -> Result<Option<ConfigSource>, Failure> {
    if config.rollout.is_none() {
        return Ok(None);
    }
    let file = Some(file.to_owned());
    let source = config_source(file, Overrides::default(), None, hook::registry());
    source.read()?;
    Ok(Some(source))
}

/// Returns the warnings about a config, the limits of its policies and its guards without a proof.
fn config_notes(snapshot: &Snapshot) -> Vec<String> {
    let config = &snapshot.config;
    let warnings = snapshot.warnings().into_iter();
    let warnings = warnings.map(|warning| format!("warning: {warning}"));
    let notes = warnings.chain(policy_notes(config));
    notes.chain(unproven_guards(config)).collect()
}

/// Returns whether hooks of several agents' families match tools, or the config names tools.
fn maps_tool_names(config: &Config) -> bool {
    let tool_events = [EventName::BeforeTool, EventName::AfterTool];
    let groups = tool_events
        .iter()
        .filter_map(|event| config.hooks.get(event));
    let mut hooks = groups.flatten().flat_map(|group| &group.hooks);
    let is_translated = |hook: &HookSpec| {
        let protocol = protocol::find(&hook.protocol);
        let families = [ToolFamily::Claude, ToolFamily::Codex];
        protocol.is_some_and(|protocol| families.contains(&protocol.tools()))
    };
    !config.tool_names.is_empty() || hooks.any(is_translated)
}

/// Prints the names of tools that mean the same, one kind per line.
fn print_tool_names(names: &ToolNames) -> Result<(), Failure> {
    for kind in ToolNames::kinds() {
        let families = [
            ("gemini", ToolFamily::Gemini),
            ("claude", ToolFamily::Claude),
            ("codex", ToolFamily::Codex),
        ];
        let own = families.map(|(name, family)| format!("{name} {}", kind.names(family).join(" ")));
        let mut line = format!("tool {}: {}", kind.name, own.join("; "));
        if !kind.others().is_empty() {
            line = format!("{line}; on the wire {}", kind.others().join(" "));
        }
        print(&line)?;
    }
    for (name, meaning) in names.overrides() {
        let line = match meaning {
            ToolNameOverride::SameAs(other) => format!("tool `{name}`: same as `{other}`"),
            ToolNameOverride::Unmapped => format!("tool `{name}`: same as no other"),
        };
        print(&escape_invisible(&line))?;
    }
    Ok(())
}

/// Returns the limits of the policies in use.
fn policy_notes(config: &Config) -> Vec<String> {
    let hooks = config.enabled_hooks();
    let builtin: Vec<PolicySpec> = hooks.filter_map(HookSpec::as_policy).collect();
    let policies = config.policies.iter().chain(&builtin);
    let notes = policies.filter_map(|spec| {
        let unseen = policy::find(&spec.policy)?.unseen;
        let (span, label) = (&spec.span, spec.label());
        (!unseen.is_empty()).then(|| format!("note: {span}: policy `{label}`: {unseen}"))
    });
    notes.collect()
}

/// Prints that hooks on tools do not run for tools that a model API runs, if there are such hooks.
fn print_hosted_tools(config: &Config) {
    let mut tool_events = [EventName::BeforeTool, EventName::AfterTool].iter();
    if !tool_events.any(|event| config.hooks.contains_key(event)) {
        return;
    }
    for field in dialect::FIELDS {
        let upstream = config.upstreams.get(field.api.upstream());
        if field.kind == RequestField::HostedTool && upstream.is_some() {
            print_error(&format!("note: `{}` {}", field.name, field.why()));
        }
    }
}

/// Prints by how much calls in flight may exceed the token quotas of callers.
fn print_token_bounds(config: &Config) {
    let policies = config
        .policies
        .iter()
        .filter(|policy| policy.mode == HookMode::Enforce && policy.when.is_none());
    let max_output = policies
        .filter(|policy| policy.policy == "request_limits")
        .filter_map(|policy| policy.settings.0.get("max_output_tokens")?.as_u64())
        .min();
    for (_, caller, grant) in config.auth.grants() {
        let Some(per_day) = grant.tokens_per_day else {
            continue;
        };
        let calls = grant.shared_in_flight.unwrap_or(grant.in_flight);
        let excess = match max_output {
            Some(tokens) => format!(
                "its policy allows {tokens} tokens of output: {} tokens, if requests cost no more than a token per 4 bytes",
                tokens.saturating_mul(calls as u64)
            ),
            None => "no policy limits its output".to_owned(),
        };
        print_error(&format!(
            "note: `tokens_per_day` {per_day} of {caller} can be exceeded by the calls in flight, at most {calls} calls, each by its cost beyond what it reserved (its request's bytes / 4, and up to {MAX_RESERVED_OUTPUT} tokens of output); {excess}"
        ));
    }
}

/// Prints the problems of the config of a shadow, without which a gateway runs nonetheless.
fn print_shadow_problems(config: &Config) {
    let Some(shadow) = &config.shadow else {
        return;
    };
    let loaded = Config::load(&shadow.config, &Overrides::default(), &hook::registry());
    for problem in loaded.err().iter().flat_map(|error| &error.problems) {
        let span = &config.shadow_span;
        print_error(&format!(
            "warning: {span}: the shadow cannot be started: {problem}"
        ));
    }
}

/// Runs the proofs of all guards, and waits until their processes have ended.
async fn prove(snapshots: Vec<Snapshot>, resources: &AppResources) -> Result<(), Failure> {
    let mut proved = Ok(());
    for snapshot in &snapshots {
        if proved.is_ok() {
            proved = snapshot.prove(resources).await;
        }
    }
    let statuses = snapshots
        .iter()
        .flat_map(|snapshot| snapshot.proofs.statuses());
    let statuses: Vec<GuardStatus> = statuses.collect();
    // Workers end with their snapshots.
    drop(snapshots);
    end_tasks(&resources.tasks).await;
    proved?;
    for status in statuses {
        let on = status.event.map(|event| format!(" on {event}"));
        let cases = count(status.cases, "case", "cases");
        print(&format!(
            "proven: `{}`{}, {cases}",
            escape_invisible(&status.name),
            on.unwrap_or_default()
        ))?;
    }
    Ok(())
}

/// Returns warnings about the guards that fail closed and have no proof.
fn unproven_guards(config: &Config) -> impl Iterator<Item = String> {
    config.guards_without_proof().map(|(event, hook)| {
        let (span, label) = (&hook.span, hook.label());
        format!(
            "warning: {span}: hook `{label}` on {event} fails closed and has no `must_deny` or `must_mask`: nothing proves that it works (docs/proof.md)"
        )
    })
}
