//! The summary of one request.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    asked_hooks::AskedHooks,
    event::{ExchangeAction, ExchangeEnd, ExchangeEvent},
};
use crate::{
    event::{Caller, Context, Trace},
    observe::TokenSum,
    timestamp::whole_microseconds,
};

/// The summary of one request so far.
#[derive(Debug)]
pub struct ExchangeSummary {
    /// The id in `x-hookgate-request-id`.
    pub request_id: Arc<str>,
    /// The caller: its name, and the rest once the call is accepted.
    pub caller: Caller,
    /// The session; empty if none is known.
    pub session_id: String,
    /// The span of the request.
    pub trace: Trace,
    /// Name of the method, such as `generateContent`; `unknown` for other paths.
    pub operation: &'static str,
    /// Name of the API that has the method; empty for unknown paths and for events.
    pub api: &'static str,
    /// Name of the API's dialect; empty until the call is accepted.
    pub dialect: &'static str,
    /// The model that the agent requested.
    pub requested_model: String,
    /// The model that was called last; the requested one until then.
    pub model: String,
    /// Address of upstream that was called last: `primary` or `fallback`; empty if none was.
    pub upstream: &'static str,
    /// Number of requests to the model API that were sent.
    pub rounds: u32,
    /// Tokens that the model API has counted. Known only if a sink needs them.
    pub tokens: TokenSum,
    /// The HTTP status sent to the agent; 0 until then.
    pub status: u16,
    /// The strictest action of policies and hooks.
    pub action: ExchangeAction,
    /// Reason code of an error of hookgate's own that is the response, or broke it off.
    pub error: Option<&'static str>,
    /// Chunks handed to hooks.
    pub chunks: u64,
    /// Outcome of sending the response body.
    pub end: ExchangeEnd,
    /// Time from the request's head to the end of the response; zero until then.
    pub elapsed: Duration,
    /// Hooks that have not answered yet. Known only if a sink needs plans.
    pub asked: AskedHooks,
    /// True if a request is not sent yet: the decision log and the circuit breaker may refuse it.
    is_waiting: bool,
    started: Instant,
}

impl ExchangeSummary {
    /// The summary of a request that has just arrived.
    pub fn new(request_id: Arc<str>, caller: Caller) -> Self {
        Self {
            request_id,
            caller,
            session_id: String::new(),
            trace: Trace::default(),
            operation: "unknown",
            api: "",
            dialect: "",
            requested_model: String::new(),
            model: String::new(),
            upstream: "",
            rounds: 0,
            tokens: TokenSum::default(),
            status: 0,
            action: ExchangeAction::Pass,
            error: None,
            chunks: 0,
            end: ExchangeEnd::Disconnected,
            elapsed: Duration::ZERO,
            asked: AskedHooks::default(),
            is_waiting: false,
            started: Instant::now(),
        }
    }

    /// The summary of a single hook event.
    pub fn from_context(context: &Context) -> Self {
        Self {
            session_id: context.session_id.clone(),
            trace: context.trace,
            ..Self::new(context.request_id.as_str().into(), context.caller.clone())
        }
    }

    /// Returns the microseconds since the begin.
    pub fn micros_now(&self) -> u32 {
        self.micros_at(Instant::now())
    }

    /// Returns the microseconds from the begin to a time.
    pub fn micros_at(&self, time: Instant) -> u32 {
        whole_microseconds(time.saturating_duration_since(self.started))
    }

    pub(super) fn apply(&mut self, event: &ExchangeEvent<'_>) {
        match event {
            ExchangeEvent::MethodResolved(method) => {
                (self.api, self.operation) = (method.api.as_str(), method.label());
            }
            ExchangeEvent::CallRead {
                operation,
                model,
                session_id,
            } => {
                self.operation = operation;
                (*model).clone_into(&mut self.requested_model);
                (*model).clone_into(&mut self.model);
                (*session_id).clone_into(&mut self.session_id);
            }
            ExchangeEvent::CallAccepted {
                dialect,
                caller,
                trace,
            } => {
                self.dialect = dialect;
                self.caller.clone_from(caller);
                self.trace = *trace;
            }
            ExchangeEvent::SessionFound { id, .. } => (*id).clone_into(&mut self.session_id),
            ExchangeEvent::ActionTaken(action) => self.action = self.action.max(*action),
            ExchangeEvent::Planned {
                event,
                plan,
                asked,
                is_skipped: false,
            } => self.asked.add(*event, plan.started, asked),
            ExchangeEvent::HookFinished { event, run } => self.asked.finish(*event, run.rule),
            ExchangeEvent::EventDecided(decision) | ExchangeEvent::ChunkDecided(decision) => {
                self.asked.end(decision);
            }
            ExchangeEvent::ChunkToHooks => {
                self.chunks += 1;
                self.asked.ask_about_chunk();
            }
            ExchangeEvent::Sending { model, .. } => {
                (*model).clone_into(&mut self.model);
                self.is_waiting = true;
            }
            ExchangeEvent::UpstreamSelected(target) => self.attempt(target),
            ExchangeEvent::UsageReported(usage) => self.tokens.set(*usage),
            ExchangeEvent::Failed { reason, status } => {
                self.action = ExchangeAction::Error;
                self.error = Some(reason);
                self.status = *status;
                self.end = ExchangeEnd::Complete;
            }
            ExchangeEvent::StreamAborted { reason } => self.error = Some(reason),
            ExchangeEvent::ResponseStarted { status } => self.status = *status,
            ExchangeEvent::ResponseEnded(end) => self.end = *end,
            _ => (),
        }
    }

    /// Begins a round with the first attempt to send its request.
    fn attempt(&mut self, target: &'static str) {
        self.upstream = target;
        if mem::take(&mut self.is_waiting) {
            self.rounds += 1;
            self.tokens.end_round();
        }
    }

    pub(super) fn finish(&mut self, is_aborted: bool) {
        self.elapsed = self.started.elapsed();
        if self.end == ExchangeEnd::Disconnected && is_aborted {
            self.end = ExchangeEnd::Aborted;
        }
    }
}
