//! What is remembered of one exchange, for headers, log and metrics.

mod audit_recorder;
mod body_digest;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(super) use self::body_digest::Side;
use self::{
    audit_recorder::Trail,
    body_digest::{Said, watched},
};
use super::outcome::Did;
use crate::{
    audit_log::{Audit, CallerRecord, Sample},
    dialect::Call,
    error::{ApiError, ErrorReason},
    event::{Context, Diagnostic, Verdict},
    hook::{EventOutcome, HookRun},
    middleware::{Authenticated, ListenerKind, RejectedRequest, RequestId},
    observe::{Ended, ExchangeFinished, UpstreamFailed},
    session::Session,
    state::{App, AppResources},
    upstream::UpstreamTarget,
};

/// What may stand in a header as it is.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/');

/// The longest header that is told, in bytes.
const LONGEST_HEADER: usize = 4096;

/// A handle on what is remembered of one exchange. Log and metrics are told when
/// the last handle goes, so one of them lives as long as the answer's body.
#[derive(Debug, Clone)]
pub(super) struct ExchangeRecorder {
    request_id: Arc<str>,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug)]
struct Memory {
    record: ExchangeFinished,
    did: Did,
    runs: Vec<String>,
    /// The policies among them that looked at the answer.
    looked: BTreeSet<String>,
    messages: Vec<String>,
    /// Whether the headers are out.
    told: bool,
    started: Instant,
    resources: Arc<AppResources>,
    /// For the decision log, if there is one.
    trail: Option<Box<Trail>>,
}

impl ExchangeRecorder {
    /// Starts to record a request.
    pub(super) fn new(app: &App, authenticated: &Authenticated, head: &Parts) -> Self {
        let Authenticated { identity, snapshot } = authenticated;
        let request_id = RequestId::from_extensions(&head.extensions);
        let record = ExchangeFinished {
            request_id: Arc::clone(&request_id),
            caller: identity.name.to_string(),
            operation: "unknown",
            ..ExchangeFinished::default()
        };
        let trail = snapshot.audit.as_ref().map(|audit| {
            let mut refused = RejectedRequest::from_parts(head).into_record(ListenerKind::Agents);
            refused.caller = CallerRecord::from(&identity.caller());
            // Boxed, so that it costs nothing without a decision log.
            Box::new(Trail::new(Arc::clone(audit), refused))
        });
        Self {
            request_id,
            memory: Arc::new(Mutex::new(Memory {
                record,
                did: Did::Pass,
                runs: Vec::new(),
                looked: BTreeSet::new(),
                messages: Vec::new(),
                told: false,
                started: Instant::now(),
                resources: Arc::clone(&app.resources),
                trail,
            })),
        }
    }

    /// The request asks for this.
    pub(super) fn operation(&self, label: &'static str) {
        self.memory().record.operation = label;
    }

    /// The request is this call.
    pub(super) fn call(&self, call: &Call, session_id: Option<&str>) {
        let mut memory = self.memory();
        memory.record.operation = call.label();
        call.model_name().clone_into(&mut memory.record.model);
        let session_id = session_id.unwrap_or_default();
        session_id.clone_into(&mut memory.record.session_id);
        if let Some(trail) = &mut memory.trail {
            trail.asks(call, session_id);
        }
    }

    /// It is a call of this caller.
    pub(super) fn opened(&self, dialect: &'static str, context: &Context) {
        if let Some(trail) = &mut self.memory().trail {
            trail.opened(dialect, context);
        }
    }

    pub(super) fn request_id(&self) -> &str {
        &self.request_id
    }

    /// The strictest of what was done counts.
    pub(super) fn did(&self, did: Did) {
        let mut memory = self.memory();
        memory.did = memory.did.max(did);
    }

    /// Takes down what hooks did on one event. Once the headers are out, nobody
    /// can be told, and a stream has thousands of such events.
    pub(super) fn note<V>(&self, fired: &EventOutcome<V>) {
        let mut memory = self.memory();
        if !memory.told {
            memory.runs.extend(fired.runs.iter().map(timed));
            memory.messages.extend(fired.output.system_message.clone());
        }
        log(&self.request_id, &fired.diagnostics);
    }

    /// Counts a chunk that hooks judge.
    pub(super) fn chunk(&self) {
        let mut memory = self.memory();
        memory.record.chunks += 1;
        if let Some(trail) = &mut memory.trail {
            trail.tally().judged();
        }
    }

    /// Counts chunks that policies are shown.
    pub(super) fn shown(&self, chunks: u64) {
        if let Some(trail) = &mut self.memory().trail {
            trail.tally().shown(chunks);
        }
    }

    /// Takes down that policies had nothing to say of chunks, each of so many.
    pub(super) fn silent(&self, runs: &[(HookRun, u64)]) {
        if let Some(trail) = &mut self.memory().trail {
            for (run, times) in runs {
                trail.tally().ran_often(run, *times);
            }
        }
    }

    /// Takes down that policies looked at an answer. Of a stream, an agent is
    /// told of each of them once, and of what it changed.
    pub(super) fn looked(&self, runs: &[HookRun]) {
        let mut memory = self.memory();
        for run in runs {
            if !memory.told && (memory.looked.insert(run.name.clone()) || run.edited) {
                memory.runs.push(timed(run));
            }
            if let Some(trail) = &mut memory.trail {
                trail.tally().ran(run);
            }
        }
    }

    /// Takes down what hooks did on a chunk.
    pub(super) fn note_chunk<V: Verdict>(&self, fired: &EventOutcome<V>) {
        self.note(fired);
        if let Some(trail) = &mut self.memory().trail {
            trail.tally().add(fired);
        }
    }

    /// What upstream counted of its answer, up to here.
    pub(super) fn usage(&self, counted: &Value) {
        if let Some(trail) = &mut self.memory().trail {
            trail.usage(counted);
        }
    }

    /// A body has passed, or what was wanted of it.
    fn sampled(&self, side: Side, sample: Sample, said: &Said) {
        if let Some(trail) = &mut self.memory().trail {
            trail.sampled(side, sample);
            if let Some(usage) = &said.usage {
                trail.usage_at_end(usage);
            }
            if let Some(model) = said.model.as_ref().and_then(Value::as_str) {
                trail.answered(model);
            }
        }
    }

    /// The same body, of which the decision log takes the print.
    pub(super) fn watch(&self, body: Body, side: Side) -> Body {
        let sampler = self.audit().map(|it| it.sampler());
        match sampler {
            Some(sampler) => watched(body, side, self.clone(), sampler),
            None => body,
        }
    }

    /// Upstream is asked there.
    pub(super) fn goes(&self, route: UpstreamTarget) {
        self.memory().record.upstream = route.as_str();
    }

    /// Upstream is about to be called with this body, or with one that nobody
    /// reads. The decision log must know first, if it is durable.
    pub(super) async fn sends(&self, body: Option<&[u8]>) -> Result<(), ApiError> {
        {
            let mut memory = self.memory();
            let Memory { trail, record, .. } = &mut *memory;
            let Some(trail) = trail else {
                return Ok(());
            };
            trail.sends(record, body);
        }
        self.commit().await
    }

    /// The agent is about to be told what hooks decided. The decision log must
    /// know first, if it is durable.
    pub(super) async fn settles(&self) -> Result<(), ApiError> {
        {
            let mut memory = self.memory();
            let Memory { trail, record, .. } = &mut *memory;
            let Some(trail) = trail else {
                return Ok(());
            };
            trail.settles(record);
        }
        self.commit().await
    }

    async fn commit(&self) -> Result<(), ApiError> {
        let trail = |it: &Trail| (Arc::clone(&it.audit), it.since);
        let found = self.memory().trail.as_deref().map(trail);
        match found {
            Some((audit, since)) => Ok(audit.commit(since).await?),
            None => Ok(()),
        }
    }

    fn audit(&self) -> Option<Arc<Audit>> {
        let memory = self.memory();
        memory.trail.as_ref().map(|it| Arc::clone(&it.audit))
    }

    pub(super) fn note_diagnostics(&self, diagnostics: &[Diagnostic]) {
        log(&self.request_id, diagnostics);
    }

    pub(super) fn session(&self, session: &Session) {
        let mut memory = self.memory();
        session.key.id.clone_into(&mut memory.record.session_id);
        if let Some(trail) = &mut memory.trail {
            trail.session(&session.key.id);
        }
        let source = session.state.source.as_str();
        memory
            .resources
            .metrics
            .record_session_lookup(session.match_kind.as_str(), source);
    }

    pub(super) fn model(&self, name: &str) {
        name.clone_into(&mut self.memory().record.model);
    }

    pub(super) fn status(&self, status: StatusCode) {
        self.memory().record.status = status.as_u16();
    }

    pub(super) fn ended(&self, ended: Ended) {
        self.memory().record.ended = ended;
    }

    /// Logs why an error came about, if the agent is not told.
    pub(super) fn report(&self, error: &ApiError) {
        if let Some(cause) = error.cause() {
            let request_id = self.request_id();
            let unreadable = error.reason() == ErrorReason::UpstreamUnreadable;
            UpstreamFailed {
                request_id,
                cause,
                unreadable,
            }
            .emit();
        }
    }

    /// The exchange ends with an error of our own.
    pub(super) fn failed(&self, error: &ApiError) {
        self.report(error);
        self.did(Did::Error);
        self.status(error.status());
        self.ended(Ended::Complete);
        if let Some(trail) = &mut self.memory().trail {
            trail.failed(error.reason().as_str());
        }
    }

    /// Adds what an agent may want to know to its headers.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        let mut memory = self.memory();
        memory.told = true;
        let message = match memory.messages.as_slice() {
            [] => String::new(),
            all => utf8_percent_encode(&all.join("\n"), KEPT).to_string(),
        };
        let texts = [
            ("x-hookgate-action", memory.did.as_str()),
            ("x-hookgate-session", &memory.record.session_id),
            ("x-hookgate-hooks", &memory.runs.join(", ")),
            ("x-hookgate-system-message", &message),
        ];
        for (name, text) in texts {
            let fits = (1..=LONGEST_HEADER).contains(&text.len());
            if let (true, Ok(value)) = (fits, HeaderValue::from_str(text)) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.record.elapsed = self.started.elapsed();
        self.record.action = self.did.as_str();
        if self.record.ended == Ended::Left && self.resources.abort.is_cancelled() {
            self.record.ended = Ended::CutOff;
        }
        self.record.emit(&self.resources.metrics);
        if let Some(trail) = self.trail.take() {
            trail.finish(&self.record);
        }
    }
}

/// `name;ms`.
fn timed(run: &HookRun) -> String {
    let name = utf8_percent_encode(&run.name, KEPT);
    format!("{name};{}", run.elapsed.as_millis())
}

fn log(request_id: &str, diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        let code = diagnostic.code.as_str();
        tracing::warn!(
            request.id = request_id,
            code,
            "part of the hook output ignored"
        );
    }
}
