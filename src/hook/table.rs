//! All hooks of one config, built and grouped by event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    condition_eval,
    configured_policy::PlacedPolicy,
    transport_reuse::{Before, Definition},
};
use crate::{
    condition::Condition,
    config::{
        BUILTIN, Config, FailureMode, HookGroup, HookMode, HookSpec, HookView, Matcher, PolicySpec,
        Problem, SystemMessages, When,
    },
    event::EventName,
    policy,
    protocol::{self, Protocol},
    transport::{self, Setup, Transport, TransportDeps, TransportError},
};

/// One hook, ready to be called.
#[derive(Debug)]
pub struct Hook {
    /// What to call it: its name, if it has one.
    pub name: String,
    /// Name, and command or URL: two hooks with the same are one (hook
    /// protocol, section 4).
    pub identity: (String, String),
    /// How it is reached, such as `command`.
    pub kind: String,
    /// How long it may take.
    pub timeout: Duration,
    /// What its failure means.
    pub on_failure: FailureMode,
    /// Whether it may change anything.
    pub mode: HookMode,
    /// Whether it sees the document too.
    pub sees: HookView,
    /// Whether it sees the system instruction as a first message.
    pub system_messages: SystemMessages,
    /// When it runs; always, if there is no condition.
    pub when: Option<Condition>,
    /// How to talk with it.
    pub protocol: &'static dyn Protocol,
    /// How to reach it.
    pub transport: Arc<dyn Transport>,
    pub(super) definition: Definition,
}

/// Hooks that share a matcher.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) matcher: Matcher,
    pub(super) sequential: bool,
    pub(super) hooks: Vec<Arc<Hook>>,
}

/// All hooks of one config.
#[derive(Debug, Default)]
pub struct HookTable {
    groups: BTreeMap<EventName, Vec<Group>>,
    policies: BTreeMap<EventName, Vec<Arc<PlacedPolicy>>>,
    places: usize,
}

impl HookTable {
    /// Builds every hook and policy of a config, or says what is wrong with each
    /// that cannot be built. Hooks that are defined as in the table before go on
    /// with their transport. Starts nothing.
    pub fn build(
        config: &Config,
        toolbox: &TransportDeps,
        before: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let mut building = Building {
            toolbox,
            before: Before::new(before),
            table: Self {
                places: config.limits.hook_processes,
                ..Self::default()
            },
            problems: Vec::new(),
        };
        for spec in &config.policies {
            building.policy(spec);
        }
        for (event, groups) in &config.hooks {
            for group in groups {
                building.group(*event, group);
            }
        }
        for spec in &config.caller_policies {
            building.policy(spec);
        }
        if building.problems.is_empty() {
            Ok(building.table)
        } else {
            Err(building.problems)
        }
    }

    /// How many processes may run at once besides those that its transports
    /// keep for themselves.
    pub const fn places(&self) -> usize {
        self.places
    }

    pub(super) fn policies(&self, event: EventName) -> &[Arc<PlacedPolicy>] {
        self.policies.get(&event).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all_policies(&self) -> impl Iterator<Item = (EventName, &Arc<PlacedPolicy>)> {
        let all = self.policies.iter();
        all.flat_map(|(event, policies)| policies.iter().map(|it| (*event, it)))
    }

    pub(super) fn groups(&self, event: EventName) -> &[Group] {
        self.groups.get(&event).map_or(&[], Vec::as_slice)
    }

    pub(super) fn hooks(&self) -> impl Iterator<Item = (EventName, &Arc<Hook>)> {
        let all = self.groups.iter();
        all.flat_map(|(event, groups)| {
            let hooks = groups.iter().flat_map(|it| &it.hooks);
            hooks.map(|it| (*event, it))
        })
    }
}

/// A table under way, and what is wrong so far.
struct Building<'a> {
    toolbox: &'a TransportDeps,
    before: Before<'a>,
    table: HookTable,
    problems: Vec<Problem>,
}

impl Building<'_> {
    fn group(&mut self, event: EventName, group: &HookGroup) {
        let mut hooks = Vec::new();
        for spec in &group.hooks {
            if spec.kind == BUILTIN {
                self.builtin(event, &group.matcher, spec);
                continue;
            }
            match self.hook(event, spec) {
                Ok(hook) => hooks.push(Arc::new(hook)),
                Err(message) => self.problems.push(Problem {
                    place: Some(spec.place.clone()),
                    message: format!("hook `{}`: {message}", spec.label()),
                }),
            }
        }
        if !hooks.is_empty() {
            self.table.groups.entry(event).or_default().push(Group {
                matcher: group.matcher.clone(),
                sequential: group.sequential,
                hooks,
            });
        }
    }

    fn hook(&mut self, event: EventName, spec: &HookSpec) -> Result<Hook, String> {
        let protocol = protocol::find(&spec.protocol)
            .ok_or_else(|| format!("no hook protocol is named `{}`", spec.protocol))?;
        let definition = Definition::new(event, spec, self.toolbox);
        let transport = match self.before.take_over(&definition) {
            Some(transport) => transport,
            None => self.transport(spec).map_err(|error| error.to_string())?,
        };
        self.keep_places(&*transport)?;
        let when = self.condition(spec.when.as_ref(), &[event], || {
            format!("hook `{}` on {event}", spec.label())
        });
        let (name, address) = spec.identity();
        Ok(Hook {
            name: spec.label().to_owned(),
            identity: (name.to_owned(), address.to_owned()),
            kind: spec.kind.clone(),
            timeout: spec.timeout,
            on_failure: spec.on_failure,
            mode: spec.mode,
            sees: spec.sees,
            system_messages: spec.system_messages,
            when,
            protocol,
            transport,
            definition,
        })
    }

    fn transport(&self, spec: &HookSpec) -> Result<Arc<dyn Transport>, TransportError> {
        let setup = Setup {
            label: spec.label(),
            settings: spec.settings.0.clone(),
            toolbox: self.toolbox,
        };
        transport::build(&spec.kind, setup)
    }

    /// One place must be left for hooks that start a process for each event: else
    /// a call could wait for ever for workers that never end.
    fn keep_places(&mut self, transport: &dyn Transport) -> Result<(), String> {
        let kept = usize::try_from(transport.instances()).unwrap_or(usize::MAX);
        match self.table.places.checked_sub(kept) {
            Some(left @ 1..) => {
                self.table.places = left;
                Ok(())
            }
            Some(0) | None => Err(
                "`instances` of all workers together must be fewer than `limits.hook_processes`"
                    .to_owned(),
            ),
        }
    }

    /// The condition of somebody, if there is one that can hold.
    fn condition(
        &mut self,
        when: Option<&When>,
        events: &[EventName],
        whose: impl FnOnce() -> String,
    ) -> Option<Condition> {
        match condition_eval::build(when?, events) {
            Ok(condition) => Some(condition),
            Err(mut problem) => {
                problem.message = format!("{}: {}", whose(), problem.message);
                self.problems.push(problem);
                None
            }
        }
    }

    /// A policy on every event that it knows.
    fn policy(&mut self, spec: &PolicySpec) {
        let events = policy::find(&spec.policy).map_or(&[][..], |it| it.events);
        self.place(events, &Matcher::all(), spec);
    }

    /// A policy on one event.
    fn builtin(&mut self, event: EventName, matcher: &Matcher, hook: &HookSpec) {
        let Some(spec) = hook.as_policy() else {
            return;
        };
        let known = policy::find(&spec.policy).map_or(&[][..], |it| it.events);
        if !known.contains(&event) {
            let known: Vec<&str> = known.iter().map(|it| it.as_str()).collect();
            let message = format!(
                "policy `{}`: {event} is none of its events: {}",
                spec.label(),
                known.join(", ")
            );
            let place = Some(spec.place);
            self.problems.push(Problem { place, message });
            return;
        }
        self.place(&[event], matcher, &spec);
    }

    fn place(&mut self, events: &[EventName], matcher: &Matcher, spec: &PolicySpec) {
        let built = policy::build(&spec.policy, spec.settings.0.clone());
        let (kind, policy) = match built {
            Ok(built) => built,
            Err(error) => {
                let message = format!("policy `{}`: {error}", spec.label());
                let place = Some(spec.place.clone());
                self.problems.push(Problem { place, message });
                return;
            }
        };
        let when = self.condition(spec.when.as_ref(), events, || {
            format!("policy `{}`", spec.label())
        });
        let placed = Arc::new(PlacedPolicy {
            when,
            name: spec.label().to_owned(),
            kind: kind.name,
            mode: spec.mode,
            matcher: matcher.clone(),
            sees_calls: events.iter().any(|it| it.comes_of_model_calls()),
            policy,
        });
        for event in events {
            let there = self.table.policies.entry(*event).or_default();
            there.push(Arc::clone(&placed));
        }
    }
}

#[cfg(test)]
mod tests;
