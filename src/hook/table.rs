//! The policies and hooks of one config, built and grouped by event.

mod policies;

use std::{
    collections::BTreeMap,
    path::{self, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    condition_eval,
    configured_policy::ConfiguredPolicy,
    recorded_hook::RecordedHook,
    rule_identity::{hook_definition, hook_rule},
    tool_matcher::ToolMatcher,
};
use crate::{
    condition::Condition,
    config::{
        Config, FailureMode, HookGroup, HookSpec, Matcher, PolicyLayer, Problem, SourceSpan,
        ToolMeaning, When,
    },
    event::{EventName, RuleId},
    observe::trace::RuleIdentity,
    protocol::{self, Protocol, ToolFamily, ToolNameOverride, ToolNames},
    recording::RuleDefinition,
    transport::{self, Transport, TransportConfig, TransportDeps},
};

/// One hook, ready to be called.
#[derive(Debug)]
pub struct Hook {
    /// Number of the hook in the config.
    pub rule: RuleId,
    /// Name, or command or URL of a hook without a name.
    pub name: String,
    /// Its settings in the config.
    pub spec: HookSpec,
    /// Condition under which it runs; always if `None`.
    pub when: Option<Condition>,
    /// Hook protocol of its input and output.
    pub protocol: &'static dyn Protocol,
    /// Transport that calls it.
    pub transport: Arc<dyn Transport>,
    /// True if it belongs to a locked bundle, and so runs last.
    pub(super) is_locked: bool,
    /// True if its last proof failed.
    pub(super) is_unproven: AtomicBool,
    /// True if an output of it that has no effect in part was logged.
    pub(super) is_ignored_part_logged: AtomicBool,
    /// Event on which it runs.
    pub event: EventName,
    /// Matcher of its group.
    pub(super) matcher: ToolMatcher,
    /// Working directory of its processes.
    pub(super) directory: PathBuf,
    pub(super) output_limit: usize,
}

impl Hook {
    /// Returns whether the transport of a hook would be built like this one's.
    fn has_transport_of(&self, event: EventName, spec: &HookSpec, deps: &TransportDeps) -> bool {
        let own = &self.spec;
        (self.event, &self.directory, self.output_limit)
            == (event, &deps.directory, deps.output_limit)
            && (own.label(), &own.kind, &own.protocol, &own.settings)
                == (spec.label(), &spec.kind, &spec.protocol, &spec.settings)
    }

    /// Returns its precedence among equal hooks. One that is not proven counts, because it
    /// refuses its events if it fails closed.
    pub(super) fn precedence(&self) -> (Option<FailureMode>, bool) {
        let is_unproven = self.is_unproven.load(Ordering::Relaxed);
        (self.spec.strictness(), is_unproven)
    }
}

/// Hooks that share a matcher.
#[derive(Debug)]
pub(super) struct MatcherGroup {
    pub(super) matcher: ToolMatcher,
    pub(super) sequential: bool,
    pub(super) hooks: Vec<Arc<Hook>>,
}

/// The policies and hooks of one config.
#[derive(Debug, Default)]
pub struct HookTable {
    groups: BTreeMap<EventName, Vec<MatcherGroup>>,
    policies: BTreeMap<EventName, Vec<Arc<ConfiguredPolicy>>>,
    /// Hooks that switches of the config disable.
    disabled: BTreeMap<EventName, Vec<RuleId>>,
    /// All policies and hooks by their number, disabled ones included.
    rules: Vec<RuleIdentity>,
    /// Definitions of `rules`, in their order.
    definitions: Vec<RuleDefinition>,
    free_slots: usize,
}

impl HookTable {
    /// Builds the policies and hooks of a config. Hooks whose transport is defined as
    /// in the `previous` table reuse it. Starts nothing.
    ///
    /// # Errors
    ///
    /// Returns all problems of the policies and hooks that cannot be built.
    pub fn build(
        config: &Config,
        deps: &TransportDeps,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let mut builder = TableBuilder {
            deps,
            previous: previous.into_iter().flat_map(Self::hooks).collect(),
            layers: &config.layers,
            tool_names: Arc::new(tool_names(config)),
            unnamed: BTreeMap::new(),
            table: Self {
                free_slots: config.limits.hook_processes,
                ..Self::default()
            },
            problems: Vec::new(),
        };
        for spec in &config.policies {
            builder.add_policy(spec);
        }
        for (event, groups) in &config.hooks {
            for group in groups {
                builder.add_group(*event, group);
            }
        }
        for spec in &config.caller_policies {
            builder.add_policy(spec);
        }
        for (event, spec) in &config.disabled_hooks {
            let mut identity = hook_rule(*event, spec);
            identity.disabled = true;
            let rule = builder.add_rule(identity, hook_definition(spec));
            let disabled = builder.table.disabled.entry(*event).or_default();
            disabled.push(rule);
        }
        if builder.problems.is_empty() {
            Ok(builder.table)
        } else {
            Err(builder.problems)
        }
    }

    /// All policies and hooks by their number, disabled ones included.
    pub fn rules(&self) -> &[RuleIdentity] {
        &self.rules
    }

    /// Definitions of all policies and hooks by their number.
    pub fn definitions(&self) -> &[RuleDefinition] {
        &self.definitions
    }

    /// Hooks of an event that switches of the config disable.
    pub(super) fn disabled(&self, event: EventName) -> &[RuleId] {
        self.disabled.get(&event).map_or(&[], Vec::as_slice)
    }

    /// Number of process slots beside those that transports hold permanently.
    pub const fn free_slots(&self) -> usize {
        self.free_slots
    }

    /// Number of process slots beside those that the transports of this and of another table hold
    /// permanently. Transports that both have count once.
    pub fn free_slots_beside(&self, other: &Self) -> usize {
        let is_own = |hook: &Hook| {
            let mut hooks = self.hooks();
            hooks.any(|own| Arc::ptr_eq(&own.transport, &hook.transport))
        };
        let others = other.hooks().filter(|hook| !is_own(hook));
        let held = others.map(|hook| held_slots(&*hook.transport));
        self.free_slots.saturating_sub(held.sum())
    }

    pub(super) fn policies(&self, event: EventName) -> &[Arc<ConfiguredPolicy>] {
        self.policies.get(&event).map_or(&[], Vec::as_slice)
    }

    /// Policies with each of their events, in order.
    pub fn all_policies(&self) -> impl Iterator<Item = (EventName, &Arc<ConfiguredPolicy>)> {
        let events = self.policies.iter();
        events.flat_map(|(event, policies)| policies.iter().map(|policy| (*event, policy)))
    }

    pub(super) fn groups(&self, event: EventName) -> &[MatcherGroup] {
        self.groups.get(&event).map_or(&[], Vec::as_slice)
    }

    /// Hooks by event, in plan order.
    pub fn hooks(&self) -> impl Iterator<Item = &Arc<Hook>> {
        let groups = self.groups.values().flatten();
        groups.flat_map(|group| &group.hooks)
    }
}

/// Returns the names of tools, with those of the config.
pub fn tool_names(config: &Config) -> ToolNames {
    let entries = config.tool_names.iter();
    ToolNames::new(entries.map(|(name, meaning)| {
        let meaning = match meaning {
            ToolMeaning::SameAs(other) => ToolNameOverride::SameAs(other.clone()),
            ToolMeaning::Unmapped(_) => ToolNameOverride::Unmapped,
        };
        (name.clone(), meaning)
    }))
}

struct TableBuilder<'a> {
    deps: &'a TransportDeps,
    /// Hooks of the previous table whose transports are not reused yet.
    previous: Vec<&'a Arc<Hook>>,
    layers: &'a [PolicyLayer],
    tool_names: Arc<ToolNames>,
    /// Number of policies without a name, by kind, event and bundle.
    unnamed: BTreeMap<(String, Option<EventName>, &'static str), usize>,
    table: HookTable,
    problems: Vec<Problem>,
}

impl TableBuilder<'_> {
    /// Numbers a policy or hook.
    fn add_rule(&mut self, rule: RuleIdentity, definition: RuleDefinition) -> RuleId {
        let number = u32::try_from(self.table.rules.len()).unwrap_or(u32::MAX);
        self.table.rules.push(rule);
        self.table.definitions.push(definition);
        RuleId(number)
    }

    fn add_group(&mut self, event: EventName, group: &HookGroup) {
        let mut hooks = Vec::new();
        // All hooks of a group are in one file, so they have one protocol.
        let first = group.hooks.first().map(|spec| spec.protocol.as_str());
        let matcher = self.matcher(&group.matcher, first.unwrap_or_default());
        for spec in &group.hooks {
            if let Some(policy) = spec.as_policy() {
                self.add_builtin(event, &matcher, &policy);
                continue;
            }
            match self.build_hook(event, &matcher, spec) {
                Ok(hook) => hooks.push(Arc::new(hook)),
                Err(error) => self.report(&spec.span, format!("hook `{}`: {error}", spec.label())),
            }
        }
        if !hooks.is_empty() {
            let groups = self.table.groups.entry(event).or_default();
            groups.push(MatcherGroup {
                matcher,
                sequential: group.sequential,
                hooks,
            });
        }
    }

    /// Returns a matcher with the names of tools of a protocol's family.
    fn matcher(&self, matcher: &Matcher, protocol: &str) -> ToolMatcher {
        let family = protocol::find(protocol).map_or(ToolFamily::Gemini, Protocol::tools);
        ToolMatcher::new(matcher.clone(), family, Arc::clone(&self.tool_names))
    }

    fn build_hook(
        &mut self,
        event: EventName,
        matcher: &ToolMatcher,
        spec: &HookSpec,
    ) -> Result<Hook, String> {
        let protocol = protocol::find(&spec.protocol)
            .ok_or_else(|| format!("unknown hook protocol `{}`", spec.protocol))?;
        let deps = self.deps_of(spec);
        let mut previous = self.previous.iter();
        // Hooks never share a transport, so each one is reused once.
        let transport = match previous.position(|hook| hook.has_transport_of(event, spec, &deps)) {
            Some(index) => Arc::clone(&self.previous.remove(index).transport),
            None => build_transport(spec, &deps)?,
        };
        self.reserve_slots(&*transport)?;
        let label = format!("hook `{}` on {event}", spec.label());
        let when = self.build_condition(spec.when.as_ref(), &[event], &label);
        let rule = self.add_rule(hook_rule(event, spec), hook_definition(spec));
        Ok(Hook {
            rule,
            name: spec.label().to_owned(),
            spec: spec.clone(),
            when,
            protocol,
            transport,
            is_locked: self.is_locked(&spec.span),
            is_unproven: AtomicBool::new(false),
            is_ignored_part_logged: AtomicBool::new(false),
            event,
            matcher: matcher.clone(),
            output_limit: deps.output_limit,
            directory: deps.directory,
        })
    }

    /// Returns the resources of a hook. Processes of a bundle's hooks run in its folder.
    fn deps_of(&self, spec: &HookSpec) -> TransportDeps {
        let mut layers = self.layers.iter();
        let mut deps = self.deps.clone();
        if let Some(layer) = layers.find(|layer| layer.contains(&spec.span)) {
            let directory = layer.directory.clone();
            deps.directory = path::absolute(&directory).unwrap_or(directory);
        }
        deps
    }

    /// Reserves the slots that a transport holds permanently. One slot must remain
    /// for hooks that start a process per event: otherwise they would wait forever
    /// for workers that never end.
    fn reserve_slots(&mut self, transport: &dyn Transport) -> Result<(), String> {
        match self.table.free_slots.checked_sub(held_slots(transport)) {
            Some(free @ 1..) => {
                self.table.free_slots = free;
                Ok(())
            }
            Some(0) | None => Err(
                "`instances` of all workers together must be fewer than `limits.hook_processes`"
                    .to_owned(),
            ),
        }
    }

    fn build_condition(
        &mut self,
        when: Option<&When>,
        events: &[EventName],
        label: &str,
    ) -> Option<Condition> {
        match condition_eval::build(when?, events) {
            Ok(condition) => Some(condition),
            Err(mut problem) => {
                problem.message = format!("{label}: {}", problem.message);
                self.problems.push(problem);
                None
            }
        }
    }

    fn report(&mut self, span: &SourceSpan, message: String) {
        self.problems.push(Problem::at(span, message));
    }
}

/// Returns the number of slots that a transport holds permanently.
fn held_slots(transport: &dyn Transport) -> usize {
    usize::try_from(transport.instances()).unwrap_or(usize::MAX)
}

fn build_transport(spec: &HookSpec, deps: &TransportDeps) -> Result<Arc<dyn Transport>, String> {
    if let Some(runs) = deps.recorded.as_ref().filter(|_| !spec.shadow) {
        return Ok(Arc::new(RecordedHook {
            name: spec.label().to_owned(),
            definition: hook_definition(spec).definition,
            runs: Arc::clone(runs),
        }));
    }
    let config = TransportConfig {
        label: spec.label(),
        settings: spec.settings.0.clone(),
        deps,
    };
    transport::build(&spec.kind, config).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
