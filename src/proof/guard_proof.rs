//! The proof of one guard: its cases, and the result of the last run.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::{
    case::GuardCase,
    case_run::CaseRunner,
    expectation::{Expectation, Mismatch},
    stage::{GuardSelection, Stage},
};
use crate::{
    config::{Config, Problem},
    event::EventName,
    hook::{Engine, Guard},
    mutex::Mutex,
};

/// The cases of a proof that are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseSelection {
    /// All cases of the guard.
    All,
    /// One of each list, another one each time, if each starts a process and the last proof
    /// succeeded.
    InTurn,
}

/// Environment of proofs: engine, config, timestamp and deadline.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProofScope<'a> {
    pub(super) engine: &'a Engine,
    pub(super) config: &'a Config,
    /// Time of the proofs, as hooks receive it.
    pub(super) timestamp: &'a str,
    /// End of all proofs together.
    pub(super) end: Option<Instant>,
}

impl<'a> ProofScope<'a> {
    fn runner(&self, guard: &'a Guard) -> CaseRunner<'a> {
        CaseRunner {
            engine: self.engine.for_proof(guard.clone()),
            guard,
            config: self.config,
            timestamp: self.timestamp,
        }
    }

    /// Returns the end of a proof that begins now, and the setting that sets it.
    fn deadline(&self) -> (Instant, String) {
        let settings = &self.config.proof;
        let own = Instant::now() + settings.timeout;
        match self.end.filter(|end| *end < own) {
            Some(end) => {
                let total = settings.total_timeout;
                (end, format!("{total:?}, the time of all proofs together"))
            }
            None => (own, format!("{:?}", settings.timeout)),
        }
    }
}

/// The last proof of a policy or hook.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct GuardStatus {
    /// Name of the policy or hook.
    pub name: String,
    /// Event of a hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<&'static str>,
    /// Number of its cases.
    pub cases: usize,
    /// True if the last proof succeeded.
    pub proven: bool,
    /// Time of the proof from which on this is so.
    pub since: String,
    /// Time of the last proof.
    pub checked: String,
    /// First problem of the last proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A guard with its cases.
#[derive(Debug)]
pub(super) struct GuardProof {
    pub(super) guard: Guard,
    cases: Vec<GuardCase>,
    /// Number of proofs with [`CaseSelection::InTurn`].
    turn: AtomicUsize,
    status: Mutex<GuardStatus>,
}

impl GuardProof {
    pub(super) fn new(guard: Guard, cases: Vec<GuardCase>) -> Self {
        let status = GuardStatus {
            name: guard.name().to_owned(),
            event: match &guard {
                Guard::Policy(_) => None,
                Guard::Hook(hook) => Some(hook.event.as_str()),
            },
            cases: cases.len(),
            proven: true,
            since: String::new(),
            checked: String::new(),
            error: None,
        };
        Self {
            guard,
            cases,
            turn: AtomicUsize::new(0),
            status: Mutex::new(status),
        }
    }

    /// Runs cases, one after the other. Returns what is wrong.
    ///
    /// Dropping the future ends the guard's process.
    pub(super) async fn run(
        &self,
        scope: ProofScope<'_>,
        selection: CaseSelection,
    ) -> Vec<Problem> {
        let (deadline, timeout) = scope.deadline();
        let runner = scope.runner(&self.guard);
        let mut problems = Vec::new();
        let mut has_run = false;
        let cases = self.select(selection);
        let runs_all = cases.len() == self.cases.len();
        for case in cases {
            let Some(run) = run_case(&runner, case, deadline).await else {
                problems.push(self.problem(case, &format!("has no result after {timeout}")));
                return problems;
            };
            let found = run.and_then(|stages| {
                has_run |= stages.iter().any(Stage::has_run);
                self.verify(scope.engine, case, &stages)
            });
            problems.extend(found.err().map(|found| self.problem(case, &found)));
        }
        if let Some(case) = self.cases.first().filter(|_| runs_all && !has_run)
            && problems.is_empty()
        {
            problems.push(self.problem(case, "runs on none of its cases"));
        }
        problems
    }

    /// Keeps the result of a proof. A change is logged.
    pub(super) fn record(&self, problems: &[Problem], timestamp: &str) {
        let error = problems.first().map(Problem::to_string);
        let mut status = self.status.lock();
        let name = self.guard.name();
        match (&status.error, &error) {
            (None, Some(error)) => {
                self.guard.proof_failed();
                tracing::warn!(hook.name = name, %error, "guard not proven");
            }
            (Some(_), None) => {
                self.guard.proof_succeeded();
                tracing::info!(hook.name = name, "guard proven again");
            }
            (None, None) | (Some(_), Some(_)) => (),
        }
        if status.since.is_empty() || status.error.is_some() != error.is_some() {
            timestamp.clone_into(&mut status.since);
        }
        timestamp.clone_into(&mut status.checked);
        status.proven = error.is_none();
        status.error = error;
    }

    /// Returns the result of the last proof.
    pub(super) fn status(&self) -> GuardStatus {
        self.status.lock().clone()
    }

    /// Returns whether the last proof succeeded.
    pub(super) fn is_proven(&self) -> bool {
        self.status.lock().proven
    }

    fn select(&self, selection: CaseSelection) -> Vec<&GuardCase> {
        let is_quick = !self.guard.starts_processes();
        if selection == CaseSelection::All || is_quick || !self.is_proven() {
            return self.cases.iter().collect();
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let lists = [Expectation::Deny, Expectation::Allow, Expectation::Mask];
        let next = lists.into_iter().filter_map(|expectation| {
            let cases = self.cases.iter();
            let cases = cases.filter(|case| case.expectation == expectation);
            let cases: Vec<&GuardCase> = cases.collect();
            cases.get(turn.checked_rem(cases.len())?).copied()
        });
        next.collect()
    }

    fn verify(&self, engine: &Engine, case: &GuardCase, stages: &[Stage]) -> Result<(), String> {
        let verified = case.expectation.verify(stages, case.secret.as_deref());
        verified.map_err(|mismatch| match mismatch {
            Mismatch::Found(found) => found,
            Mismatch::NotSelected => {
                format!("did not run: {}", self.skip_reason(engine, stages))
            }
        })
    }

    /// Returns why selection skipped the guard on all events of a case.
    fn skip_reason(&self, engine: &Engine, stages: &[Stage]) -> String {
        let events = self.events(engine);
        let is_on = |stage: &&Stage| events.contains(&stage.event);
        let mut fired = stages.iter().filter(is_on);
        if !stages.iter().any(|stage| is_on(&stage)) {
            let on = names(events.into_iter());
            let fired = names(stages.iter().map(|stage| stage.event));
            return format!("it is on {on}, and the case fires {fired}");
        }
        let when = match &self.guard {
            Guard::Policy(policy) => &policy.when,
            Guard::Hook(hook) => &hook.when,
        };
        if fired.all(|stage| stage.selection == GuardSelection::Unmatched) {
            "its matcher does not match".to_owned()
        } else if when.is_some() {
            "its `when` is false".to_owned()
        } else {
            "it does not inspect this".to_owned()
        }
    }

    fn events(&self, engine: &Engine) -> Vec<EventName> {
        match &self.guard {
            Guard::Hook(hook) => vec![hook.event],
            Guard::Policy(_) => {
                let policies = engine.table().all_policies();
                let own = policies.filter(|(_, policy)| self.guard.is_policy(policy));
                own.map(|(event, _)| event).collect()
            }
        }
    }

    fn problem(&self, case: &GuardCase, found: &str) -> Problem {
        let (guard, verb, label) = (&self.guard, case.expectation.verb(), &case.label);
        let message = format!("{guard}: must {verb} {label}, but {found}");
        Problem::at(&case.span, message)
    }
}

/// Joins the names of events, each once.
fn names(events: impl Iterator<Item = EventName>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for event in events {
        if !names.contains(&event.as_str()) {
            names.push(event.as_str());
        }
    }
    names.join(" and ")
}

/// Runs a case. Returns `None` if it has no result at the deadline.
async fn run_case(
    runner: &CaseRunner<'_>,
    case: &GuardCase,
    deadline: Instant,
) -> Option<Result<Vec<Stage>, String>> {
    // A process is not started only to be ended.
    deadline.checked_duration_since(Instant::now())?;
    // Boxed, because one case has the futures of all events.
    let run = Box::pin(runner.run(&case.sender, &case.input));
    timeout_at(deadline, run).await.ok()
}
