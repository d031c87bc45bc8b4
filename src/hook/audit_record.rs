//! What the decision log is told of events.

use std::time::{Duration, SystemTime};

use super::{
    outcome::{EventOrigin, EventOutcome, HookRun},
    trace::reason,
};
use crate::{
    audit_log::{Audit, CallerRecord, EventRecord, HookRecord, Period, short},
    event::{
        Action, BeforeTool, Context, EventDefinition, EventName, HookOutput, HookResult,
        HookStatus, Verdict,
    },
    policy::RefusedCall,
};

/// The origin of an event that is a model call.
pub(super) const CALL: &str = "call";

impl EventOrigin {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Derived => "derived",
        }
    }
}

/// One event and what came of it.
pub(super) fn event<V: Verdict>(
    audit: &Audit,
    (context, event): (&Context, EventName),
    origin: &'static str,
    fired: &EventOutcome<V>,
) -> EventRecord {
    let mut tally = RunStats::default();
    tally.add(fired);
    let mut record = tally.into_record(audit, context, event, origin);
    record.chunks = None;
    record
}

/// A call that a policy took out of an answer, or would have.
pub(super) fn refused_call(
    audit: &Audit,
    context: &Context,
    run: &HookRun,
    call: &RefusedCall,
) -> EventRecord {
    let output = HookOutput::denial(call.reason.as_str());
    let verdict = match run.would {
        None => BeforeTool::evaluate(&output),
        Some(_) => BeforeTool::evaluate(&HookOutput::default()),
    };
    let fired = EventOutcome {
        verdict,
        output: output.clone(),
        runs: vec![HookRun {
            name: run.name.clone(),
            answer: HookResult {
                status: HookStatus::Ok,
                output,
                diagnostics: Vec::new(),
            },
            elapsed: run.elapsed,
            ended: run.ended,
            would: run.would.map(|_| Action::Deny),
            edited: false,
            refused: Vec::new(),
        }],
        diagnostics: Vec::new(),
    };
    let mut record = event(audit, (context, EventName::BeforeTool), CALL, &fired);
    record.subject = Some(short(&call.tool));
    record
}

/// What hooks did on all chunks of an answer.
#[derive(Debug, Default)]
pub struct RunStats {
    /// Chunks that policies were shown.
    shown: u64,
    /// Chunks that hooks judged.
    judged: u64,
    hooks: Vec<Runs>,
    verdict: Option<Action>,
    reason: Option<String>,
}

/// All runs of one hook.
#[derive(Debug)]
struct Runs {
    name: String,
    status: HookStatus,
    elapsed: Duration,
    time: Period,
    would: Option<Action>,
    number: u64,
    edited: bool,
    refused: usize,
}

impl RunStats {
    /// Whether nobody was asked.
    pub const fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Policies are shown so many more chunks.
    pub const fn shown(&mut self, chunks: u64) {
        self.shown += chunks;
    }

    /// Hooks judge one more chunk.
    pub const fn judged(&mut self) {
        self.judged += 1;
    }

    /// Adds a run that changes no verdict.
    pub fn ran(&mut self, run: &HookRun) {
        self.ran_often(run, 1);
    }

    /// The same of many runs that are alike.
    pub fn ran_often(&mut self, run: &HookRun, times: u64) {
        match self.hooks.iter_mut().find(|it| it.name == run.name) {
            Some(known) => known.add(run, times),
            None => self.hooks.push(Runs::new(run, times)),
        }
    }

    /// Adds what came of runs.
    pub fn add<V: Verdict>(&mut self, fired: &EventOutcome<V>) {
        for run in &fired.runs {
            self.ran(run);
        }
        let verdict = fired.verdict.action();
        if self.verdict < Some(verdict) {
            self.verdict = Some(verdict);
            self.reason = reason(verdict, &fired.output);
        }
    }

    /// All of it as one event.
    pub fn into_record(
        self,
        audit: &Audit,
        context: &Context,
        event: EventName,
        origin: &'static str,
    ) -> EventRecord {
        EventRecord {
            request: context.request_id.clone(),
            session: short(&context.session_id),
            caller: CallerRecord::from(&context.caller),
            trace: context.trace,
            time: self.time(),
            event,
            origin,
            subject: None,
            chunks: Some(self.shown.max(self.judged)),
            hooks: self.hooks.into_iter().map(Runs::into_record).collect(),
            verdict: self.verdict.unwrap_or(Action::Proceed),
            reason: self.reason.map(|it| audit.reason(&it)),
            input: None,
        }
    }
}

impl RunStats {
    /// From its first run to its last.
    fn time(&self) -> Period {
        let times = self.hooks.iter().map(|it| it.time).reduce(Period::and);
        times.unwrap_or_else(|| Period::ended(Duration::ZERO, SystemTime::now()))
    }
}

impl Runs {
    fn new(run: &HookRun, times: u64) -> Self {
        Self {
            name: run.name.clone(),
            status: run.status(),
            elapsed: run.elapsed,
            time: Period::ended(run.elapsed, run.ended),
            would: run.would,
            number: times,
            edited: run.edited,
            refused: run.refused.len(),
        }
    }

    fn add(&mut self, run: &HookRun, times: u64) {
        if severity(run.status()) > severity(self.status) {
            self.status = run.status();
        }
        self.elapsed += run.elapsed;
        self.time = self.time.and(Period::ended(run.elapsed, run.ended));
        self.would = self.would.max(run.would);
        self.number += times;
        self.edited |= run.edited;
        self.refused += run.refused.len();
    }

    fn into_record(self) -> HookRecord {
        HookRecord {
            name: self.name,
            status: self.status.as_str(),
            time: self.time,
            ms: u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            would: self.would.map(would),
            runs: (self.number > 1).then_some(self.number),
            edited: self.edited,
            refused: self.refused,
        }
    }
}

const fn severity(status: HookStatus) -> u8 {
    match status {
        HookStatus::Ok => 0,
        HookStatus::Block => 1,
        HookStatus::Failed => 2,
    }
}

const fn would(action: Action) -> &'static str {
    match action {
        Action::Proceed => "would_proceed",
        Action::Ask => "would_ask",
        Action::Respond => "would_respond",
        Action::Deny => "would_deny",
        Action::Stop => "would_stop",
    }
}
