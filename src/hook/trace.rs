//! Remembers everything that is fired, for those who ask what hooks would do.
//! A gateway that serves agents has none.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use serde_json::Value;

use super::{
    outcome::{EventOutcome, HookRun},
    plan::Plan,
};
use crate::{
    config::BUILTIN,
    event::{Action, EventName, HookOutput, Verdict},
};

/// What becomes of the hooks of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookExecution {
    /// They are called.
    Called,
    /// They are left alone, and have said nothing.
    LeftAlone,
}

/// Sees every event of one engine.
#[derive(Debug)]
pub struct Tracer {
    calling: HookExecution,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Who is asked on which event, and how.
    plans: BTreeMap<EventName, Planned>,
    records: Vec<Record>,
}

#[derive(Debug, Clone, Default)]
struct Planned {
    sequential: bool,
    /// Names and types.
    members: Vec<(String, String)>,
}

/// One event, as it was fired.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Which event.
    pub event: EventName,
    /// Whether its hooks waited for each other.
    pub sequential: bool,
    /// Who was asked, in order: policies, then hooks.
    pub hooks: Vec<HookRecord>,
    /// What it came to.
    pub verdict: Action,
    /// Why, if that is no, stop or ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One hook or policy of an event.
#[derive(Debug, Clone, Serialize)]
pub struct HookRecord {
    /// Its name.
    pub name: String,
    /// How it is reached; policies are `builtin`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it did; `None` if it was left alone.
    #[serde(flatten)]
    pub ran: Option<HookRunReport>,
}

/// What a hook did.
#[derive(Debug, Clone, Serialize)]
pub struct HookRunReport {
    /// `ok`, `block` or `failed`.
    pub status: &'static str,
    /// How long it took.
    pub ms: u64,
    /// What it said.
    pub output: Value,
    /// Whether it edited the document itself, or would have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// What was left out of what it said: each with its code and its detail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<(&'static str, String)>,
    /// What it would have done, if it only observes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Action>,
}

impl Tracer {
    /// Nothing seen yet.
    pub fn new(calling: HookExecution) -> Self {
        Self {
            calling,
            seen: Mutex::default(),
        }
    }

    /// Everything seen so far, which it then forgets.
    pub fn records(&self) -> Vec<Record> {
        std::mem::take(&mut self.seen().records)
    }

    /// Takes down a plan. What of it is to be done is given back.
    pub(super) fn planned(&self, event: EventName, plan: Plan) -> Plan {
        let policies = plan.policies.iter();
        let policies = policies.map(|it| (it.name.clone(), BUILTIN.to_owned()));
        let hooks = plan.hooks.iter();
        let hooks = hooks.map(|it| (it.name.clone(), it.kind.clone()));
        let planned = Planned {
            sequential: plan.sequential,
            members: policies.chain(hooks).collect(),
        };
        let mut seen = self.seen();
        if self.calling == HookExecution::Called {
            seen.plans.insert(event, planned);
            return plan;
        }
        let hooks = planned.members.into_iter();
        let hooks = hooks.map(|(name, kind)| HookRecord {
            name,
            kind,
            ran: None,
        });
        seen.records.push(Record {
            event,
            sequential: planned.sequential,
            hooks: hooks.collect(),
            verdict: Action::Proceed,
            reason: None,
        });
        Plan::default()
    }

    /// Takes down what an event came to, if anybody was asked.
    pub(super) fn fired<V: Verdict>(&self, event: EventName, fired: &EventOutcome<V>) {
        if fired.runs.is_empty() {
            return;
        }
        let verdict = fired.verdict.action();
        let mut seen = self.seen();
        let planned = seen.plans.get(&event).cloned().unwrap_or_default();
        let kind = |name: &str| {
            let known = planned.members.iter().find(|it| it.0 == name);
            known.map(|it| it.1.clone()).unwrap_or_default()
        };
        let hooks = fired.runs.iter().map(|run| HookRecord {
            name: run.name.clone(),
            kind: kind(&run.name),
            ran: Some(HookRunReport::of(run)),
        });
        let hooks = hooks.collect();
        seen.records.push(Record {
            event,
            sequential: planned.sequential,
            hooks,
            verdict,
            reason: reason(verdict, &fired.output),
        });
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HookRunReport {
    fn of(run: &HookRun) -> Self {
        let diagnostics = run.answer.diagnostics.iter();
        Self {
            status: run.status().as_str(),
            ms: u64::try_from(run.elapsed.as_millis()).unwrap_or(u64::MAX),
            // A struct of names and values always becomes JSON.
            output: serde_json::to_value(&run.answer.output).unwrap_or_default(),
            diagnostics: diagnostics
                .map(|it| (it.code.as_str(), it.detail.clone()))
                .collect(),
            would: run.would,
            edited: run.edited,
        }
    }
}

/// Why a verdict is no, stop or ask.
pub(super) fn reason(verdict: Action, folded: &HookOutput) -> Option<String> {
    let reason = match verdict {
        Action::Proceed | Action::Respond => return None,
        Action::Stop => folded.stop(),
        Action::Deny => folded.deny(),
        Action::Ask => return folded.reason.clone(),
    };
    reason.map(|it| it.as_str().to_owned())
}
