//! All hooks of one config, built and grouped by event.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    config::{
        Config, FailureMode, HookGroup, HookMode, HookSpec, HookView, Matcher, Problem,
        SystemMessages,
    },
    event::EventName,
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
}

impl HookTable {
    /// Builds every hook of a config, or says what is wrong with each that
    /// cannot be built.
    pub fn build(config: &Config, toolbox: &Toolbox) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut groups: BTreeMap<EventName, Vec<Group>> = BTreeMap::new();
        for (event, specs) in &config.hooks {
            let built = specs.iter().map(|it| group(it, toolbox, &mut problems));
            groups.insert(*event, built.collect());
        }
        if problems.is_empty() {
            Ok(Self { groups })
        } else {
            Err(problems)
        }
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

fn group(spec: &HookGroup, toolbox: &Toolbox, problems: &mut Vec<Problem>) -> Group {
    let mut hooks = Vec::new();
    for spec in &spec.hooks {
        match hook(spec, toolbox) {
            Ok(hook) => hooks.push(Arc::new(hook)),
            Err(problem) => problems.push(problem),
        }
    }
    Group {
        matcher: spec.matcher.clone(),
        sequential: spec.sequential,
        hooks,
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
