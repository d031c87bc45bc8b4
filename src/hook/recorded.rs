//! What the decision log is told of events.

use std::time::{Duration, SystemTime};

use super::{Fired, Origin, Run, witness::reason};
use crate::{
    audit::{Audit, CallerRecord, EventRecord, HookRecord, Period, short},
    event::{Action, Context, EventName, HookStatus, Verdict},
};

/// The origin of an event that is a model call.
pub(super) const CALL: &str = "call";

impl Origin {
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
    fired: &Fired<V>,
) -> EventRecord {
    let mut tally = Tally::default();
    tally.add(fired);
    let mut record = tally.into_record(audit, context, event, origin);
    record.chunks = None;
    record
}

/// What hooks did on all chunks of an answer.
#[derive(Debug, Default)]
pub struct Tally {
    chunks: u64,
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
}

impl Tally {
    /// Whether no hook was asked.
    pub const fn is_empty(&self) -> bool {
        self.chunks == 0
    }

    /// Adds what came of one more chunk.
    pub fn add<V: Verdict>(&mut self, fired: &Fired<V>) {
        self.chunks += 1;
        for run in &fired.runs {
            match self.hooks.iter_mut().find(|it| it.name == run.name) {
                Some(known) => known.add(run),
                None => self.hooks.push(Runs::new(run)),
            }
        }
        let verdict = fired.verdict.action();
        if self.verdict < Some(verdict) {
            self.verdict = Some(verdict);
            self.reason = reason(verdict, &fired.folded);
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
            chunks: Some(self.chunks),
            hooks: self.hooks.into_iter().map(Runs::into_record).collect(),
            verdict: self.verdict.unwrap_or(Action::Proceed),
            reason: self.reason.map(|it| audit.reason(&it)),
            input: None,
        }
    }
}

impl Tally {
    /// From its first run to its last.
    fn time(&self) -> Period {
        let times = self.hooks.iter().map(|it| it.time).reduce(Period::and);
        times.unwrap_or_else(|| Period::ended(Duration::ZERO, SystemTime::now()))
    }
}

impl Runs {
    fn new(run: &Run) -> Self {
        Self {
            name: run.name.clone(),
            status: run.status(),
            elapsed: run.elapsed,
            time: Period::ended(run.elapsed, run.ended),
            would: run.would,
            number: 1,
        }
    }

    fn add(&mut self, run: &Run) {
        if severity(run.status()) > severity(self.status) {
            self.status = run.status();
        }
        self.elapsed += run.elapsed;
        self.time = self.time.and(Period::ended(run.elapsed, run.ended));
        self.would = self.would.max(run.would);
        self.number += 1;
    }

    fn into_record(self) -> HookRecord {
        HookRecord {
            name: self.name,
            status: self.status.as_str(),
            time: self.time,
            ms: u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            would: self.would.map(would),
            runs: (self.number > 1).then_some(self.number),
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
