//! All hooks of one config, built and grouped by event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::placed::PlacedPolicy;
use crate::{
    config::{
        BUILTIN, Config, FailureMode, HookGroup, HookMode, HookSpec, HookView, Matcher, PolicySpec,
        Problem, SystemMessages,
    },
    event::EventName,
    policy,
    protocol::{self, Protocol},
    transport::{self, Setup, Toolbox, Transport},
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
    /// How to talk with it.
    pub protocol: &'static dyn Protocol,
    /// How to reach it.
    pub transport: Arc<dyn Transport>,
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
}

impl HookTable {
    /// Builds every hook and policy of a config, or says what is wrong with each
    /// that cannot be built.
    pub fn build(config: &Config, toolbox: &Toolbox) -> Result<Self, Vec<Problem>> {
        let mut building = Building {
            toolbox,
            table: Self::default(),
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
        if building.problems.is_empty() {
            Ok(building.table)
        } else {
            Err(building.problems)
        }
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
    toolbox: &'a Toolbox,
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
            match hook(spec, self.toolbox) {
                Ok(hook) => hooks.push(Arc::new(hook)),
                Err(problem) => self.problems.push(problem),
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
        let placed = Arc::new(PlacedPolicy {
            name: spec.label().to_owned(),
            kind: kind.name,
            mode: spec.mode,
            matcher: matcher.clone(),
            policy,
        });
        for event in events {
            let there = self.table.policies.entry(*event).or_default();
            there.push(Arc::clone(&placed));
        }
    }
}

fn hook(spec: &HookSpec, toolbox: &Toolbox) -> Result<Hook, Problem> {
    let problem = |message: String| Problem {
        place: Some(spec.place.clone()),
        message: format!("hook `{}`: {message}", spec.label()),
    };
    let protocol = protocol::find(&spec.protocol)
        .ok_or_else(|| problem(format!("no hook protocol is named `{}`", spec.protocol)))?;
    let setup = Setup {
        label: spec.label(),
        settings: spec.settings.0.clone(),
        toolbox,
    };
    let transport =
        transport::build(&spec.kind, setup).map_err(|error| problem(error.to_string()))?;
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
        protocol,
        transport,
    })
}
