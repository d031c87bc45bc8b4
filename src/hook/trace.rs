//! Trace of all hook events, for `hookgate explain` and `hookgate test`.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use crate::{
    event::{Action, Diagnostic, EventName, HookRun, RuleId},
    model::IgnoredEdit,
    mutex::Mutex,
    observe::recorder::{EventDecision, ExchangeEvent, ExchangeSummary, Sink, SinkNeed},
    timestamp::whole_milliseconds,
};

/// Execution mode of the policies and hooks of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HookExecution {
    /// Policies and hooks run.
    #[default]
    Executed,
    /// A dry run: policies and hooks are listed only, and have no output.
    Skipped,
}

/// Collects the trace of all hook events.
#[derive(Debug)]
pub struct Tracer {
    execution: HookExecution,
    state: Mutex<TraceState>,
}

#[derive(Debug, Default)]
struct TraceState {
    /// The last plan of each event, without runs.
    plans: BTreeMap<EventName, EventTrace>,
    events: Vec<EventTrace>,
    /// Diagnostics of the next event; `None` between its decision and the next plan.
    undecided: Option<Vec<(&'static str, String)>>,
}

/// One hook event and its outcome.
#[derive(Debug, Clone, Serialize)]
pub struct EventTrace {
    /// Name of the event.
    pub event: EventName,
    /// True if hooks ran in sequence.
    pub sequential: bool,
    /// Policies, then hooks, in order.
    pub hooks: Vec<HookTrace>,
    /// Verdict on the event; `None` in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Action>,
    /// Reason of a verdict that denies, stops or asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Parts of the merged output that were ignored: code and detail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<(&'static str, String)>,
}

/// One policy or hook of an event.
#[derive(Debug, Clone, Serialize)]
pub struct HookTrace {
    /// Number of the policy or hook in the config. Names need not be unique.
    #[serde(skip)]
    pub rule: RuleId,
    /// Name of the policy or hook.
    pub name: String,
    /// Type of the hook; `builtin` for policies.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its run; `None` if it was skipped.
    #[serde(flatten)]
    pub ran: Option<RunTrace>,
}

/// One run of a policy or hook.
#[derive(Debug, Clone, Serialize)]
pub struct RunTrace {
    /// `ok`, `block` or `failed`.
    pub status: &'static str,
    /// Duration of the run in milliseconds.
    pub ms: u64,
    /// Output of the hook.
    pub output: Value,
    /// True if a policy edited the document, or would have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Tools whose calls a policy removed from an answer, or would have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_calls: Vec<String>,
    /// Parts of the output that were ignored: code and detail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<(&'static str, String)>,
    /// Action that the output would have caused; `None` unless in `mode: observe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Action>,
}

impl Tracer {
    /// A trace of an engine that executes hooks, or only lists them.
    pub fn new(execution: HookExecution) -> Self {
        Self {
            execution,
            state: Mutex::default(),
        }
    }

    /// Returns whether hooks are executed.
    pub const fn execution(&self) -> HookExecution {
        self.execution
    }

    /// Takes the events so far.
    pub fn take_events(&self) -> Vec<EventTrace> {
        std::mem::take(&mut self.state.lock().events)
    }
}

impl HookTrace {
    /// Returns whether it had an output or an effect, or would have had one.
    pub fn has_acted(&self) -> bool {
        self.ran.as_ref().is_some_and(|run| {
            let has_output = run
                .output
                .as_object()
                .is_some_and(|fields| !fields.is_empty());
            has_output || run.edited || !run.removed_calls.is_empty()
        })
    }

    /// Returns whether a run is one of this policy or hook.
    fn is_of(&self, run: &HookRun) -> bool {
        self.rule == run.rule && self.name == run.name
    }
}

impl Sink for Arc<Tracer> {
    fn record(&mut self, _exchange: &ExchangeSummary, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::Planned {
                event,
                plan,
                asked,
                is_skipped,
            } => {
                let hooks = asked.iter().map(|asked| HookTrace {
                    rule: asked.rule,
                    name: asked.name.to_owned(),
                    kind: asked.kind.to_owned(),
                    ran: None,
                });
                let planned = EventTrace {
                    event: *event,
                    sequential: plan.sequential,
                    hooks: hooks.collect(),
                    verdict: None,
                    reason: None,
                    diagnostics: Vec::new(),
                };
                let mut state = self.state.lock();
                if *is_skipped {
                    state.events.push(planned);
                } else {
                    state.plans.insert(*event, planned);
                    state.undecided.get_or_insert_default();
                }
            }
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision) => {
                self.state.lock().decide(decision);
            }
            ExchangeEvent::PoliciesRan(runs) => self.state.lock().inspect(runs),
            ExchangeEvent::EditsIgnored(edits) => self.state.lock().add_ignored(edits),
            _ => (),
        }
    }

    fn needs(&self, what: SinkNeed) -> bool {
        what == SinkNeed::Plans
    }
}

impl TraceState {
    fn decide(&mut self, decision: &EventDecision<'_>) {
        let runs: Vec<&HookRun> = decision.runs.iter().collect();
        let diagnostics = decision.diagnostics.iter().map(code_and_detail);
        self.undecided.get_or_insert_default().extend(diagnostics);
        self.add_event(decision.event, &runs, decision.verdict, decision.reason());
    }

    /// Adds edits that could not be applied: to the last event, or to the next one if they are
    /// written before its decision, as for a locked bundle.
    fn add_ignored(&mut self, edits: &[IgnoredEdit]) {
        let diagnostics = edits.iter().cloned().map(Diagnostic::from);
        let diagnostics = diagnostics.map(|diagnostic| code_and_detail(&diagnostic));
        let last = self.events.last_mut().map(|event| &mut event.diagnostics);
        if let Some(list) = self.undecided.as_mut().or(last) {
            list.extend(diagnostics);
        }
    }

    /// Adds the runs of policies on a chunk. A run without effect is listed once for each policy:
    /// streams have thousands.
    fn inspect(&mut self, runs: &[HookRun]) {
        let runs = runs.iter();
        let runs: Vec<&HookRun> = runs
            .filter(|run| run.has_effect() || !self.lists(run))
            .collect();
        let enforced = runs.iter().filter(|run| run.is_enforced());
        let mut reasons: Vec<&str> = enforced
            .flat_map(|run| &run.refused)
            .map(|call| call.reason.as_str())
            .collect();
        reasons.dedup();
        let verdict = if reasons.is_empty() {
            Action::Proceed
        } else {
            Action::Deny
        };
        let reason = (!reasons.is_empty()).then(|| reasons.join("\n"));
        self.add_event(EventName::AfterModel, &runs, verdict, reason);
    }

    /// Returns whether a policy or hook is listed on an answer.
    fn lists(&self, run: &HookRun) -> bool {
        let mut events = self.events.iter();
        events.any(|event| {
            event.event == EventName::AfterModel && event.hooks.iter().any(|hook| hook.is_of(run))
        })
    }

    fn add_event(
        &mut self,
        event: EventName,
        runs: &[&HookRun],
        verdict: Action,
        reason: Option<String>,
    ) {
        if runs.is_empty() {
            return;
        }
        let diagnostics = self.undecided.take().unwrap_or_default();
        let plan = self.plans.get(&event);
        let kind = |run: &HookRun| {
            let planned = plan?.hooks.iter().find(|planned| planned.is_of(run))?;
            Some(planned.kind.clone())
        };
        let hooks = runs.iter().map(|run| HookTrace {
            rule: run.rule,
            name: run.name.clone(),
            kind: kind(run).unwrap_or_default(),
            ran: Some(RunTrace::new(run)),
        });
        self.events.push(EventTrace {
            event,
            sequential: plan.is_some_and(|plan| plan.sequential),
            hooks: hooks.collect(),
            verdict: Some(verdict),
            reason,
            diagnostics,
        });
    }
}

impl RunTrace {
    fn new(run: &HookRun) -> Self {
        let diagnostics = run.result.diagnostics.iter();
        Self {
            status: run.status().as_str(),
            ms: whole_milliseconds(run.elapsed),
            // A struct of strings and JSON values always becomes JSON.
            output: serde_json::to_value(&run.result.output).unwrap_or_default(),
            diagnostics: diagnostics.map(code_and_detail).collect(),
            would: run.would_on_calls(),
            edited: run.edited,
            removed_calls: run.refused.iter().map(|call| call.tool.clone()).collect(),
        }
    }
}

fn code_and_detail(diagnostic: &Diagnostic) -> (&'static str, String) {
    (diagnostic.code.as_str(), diagnostic.detail.clone())
}
