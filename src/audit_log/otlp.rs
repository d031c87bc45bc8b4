//! Export of records to an OTLP collector: events, hook runs and calls as spans, named
//! by the semantic conventions for generative AI where they apply; all records as log
//! records, always without content.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{
    field_mask::{CONTENT_FIELDS, masked},
    hook_run_record::{HookRunRecord, would_name},
    rate_limit::RecordRateLimiter,
    record::{AuditRecord, EventRecord, OutcomeRecord},
    span_ids::SpanIds,
    time_range::TimeRange,
};
use crate::{
    config::{OtlpSettings, SinkMask},
    event::{Action, HookStatus, Trace},
    observe::{
        Metrics,
        otlp::{Attributes, LogRecord, Signal, SignalQueue, Span, SpanKind},
    },
    service_client::ClientError,
    timestamp::whole_milliseconds,
};

/// Exports the records of a log to one collector. After it is dropped, queued items are still sent
/// for two seconds.
#[derive(Debug)]
pub(super) struct RecordExporter {
    pub(super) settings: OtlpSettings,
    /// Queue of spans, if they are exported.
    pub(super) traces: Option<SignalQueue>,
    /// Queue of log records, if they are exported.
    logs: Option<SignalQueue>,
    pub(super) rejected_requests: RecordRateLimiter,
    /// Drops the content of lines.
    content_mask: SinkMask,
}

/// The fields of a line by which collectors search. Only lines of a file have `seq`,
/// `prev` and `hash`.
#[derive(Deserialize)]
struct LineFields<'a> {
    seq: Option<u64>,
    #[serde(borrow, default)]
    prev: Cow<'a, str>,
    #[serde(deserialize_with = "deserialize_time")]
    time: Timestamp,
    trace: Option<SpanIds>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Cow<'a, str>,
    #[serde(borrow, default)]
    session: Cow<'a, str>,
    #[serde(borrow, default)]
    hash: Cow<'a, str>,
}

impl RecordExporter {
    pub(super) fn new(
        settings: &OtlpSettings,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, ClientError> {
        let queue = |signal| SignalQueue::new(settings, signal, Arc::clone(metrics));
        Ok(Self {
            settings: settings.clone(),
            traces: settings.traces.then(|| queue(Signal::Traces)).transpose()?,
            logs: settings.logs.then(|| queue(Signal::Logs)).transpose()?,
            rejected_requests: RecordRateLimiter::default(),
            content_mask: SinkMask {
                drop: CONTENT_FIELDS.map(str::to_owned).to_vec(),
                ..SinkMask::default()
            },
        })
    }

    /// Starts sending, unless it was started before.
    pub(super) fn start(&self, tasks: &TaskTracker) {
        for queue in [&self.traces, &self.logs].into_iter().flatten() {
            queue.start(tasks);
        }
    }

    /// Queues the spans of a record for export. Does not block.
    pub(super) fn export_spans(&self, record: &AuditRecord) {
        let Some(traces) = &self.traces else {
            return;
        };
        match record {
            AuditRecord::Event(event) => export_event(traces, event),
            AuditRecord::Outcome(outcome) => traces.push(call_span(outcome).to_json()),
            _ => (),
        }
    }

    /// Queues lines, each with its line break, for export without content. Does not block.
    pub(super) fn export_lines(&self, lines: &[u8]) {
        let Some(logs) = &self.logs else {
            return;
        };
        let lines = lines.split(|byte| *byte == b'\n');
        for record in lines.filter_map(|line| log_record(&self.content_mask, line)) {
            logs.push(record.to_json());
        }
    }
}

fn export_event(traces: &SignalQueue, event: &EventRecord) {
    // An event of a call is a child of the call's span; a reported one has the span
    // of its own request.
    let trace = match (event.trace.is_enabled(), event.origin) {
        (false, _) => start_trace(None),
        (true, "reported") => event.trace,
        (true, _) => event.trace.child(new_span_id()),
    };
    let subject = event.subject.as_deref().unwrap_or_default();
    let span = Span {
        trace,
        name: event.event.as_str().to_owned(),
        kind: SpanKind::Internal,
        started: event.time.started,
        ended: event.time.ended,
        attributes: request_attributes(&event.request, &event.session, &event.caller.name)
            .text("hookgate.event", event.event.as_str())
            .text("hookgate.origin", event.origin)
            .text("hookgate.subject", subject)
            .text("hookgate.verdict", event.verdict.map_or("", Action::as_str))
            .text("hookgate.ended", event.ended.unwrap_or_default())
            .number("hookgate.chunks", event.chunks),
        failed: false,
    };
    traces.push(span.to_json());
    for hook in &event.hooks {
        traces.push(hook_span(hook, trace).to_json());
    }
}

/// Starts a span within the trace of a `traceparent` header, or in a new trace.
pub(super) fn start_trace(traceparent: Option<&str>) -> Trace {
    Trace::from_traceparent(traceparent, Uuid::new_v4().as_u128(), new_span_id())
}

/// Returns a random id. It is not zero, because some bits of a UUID are always set.
fn new_span_id() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

fn hook_span(hook: &HookRunRecord, event: Trace) -> Span {
    Span {
        trace: event.child(new_span_id()),
        name: format!("hook {}", hook.name),
        kind: SpanKind::Internal,
        started: hook.time.started,
        ended: hook.time.ended,
        attributes: Attributes::default()
            .text("hookgate.hook.name", &hook.name)
            .text("hookgate.hook.status", hook.status.as_str())
            .text("hookgate.hook.would", &would_name(hook.would))
            .number("hookgate.hook.ms", Some(whole_milliseconds(hook.elapsed)))
            .number("hookgate.hook.runs", (hook.runs > 1).then_some(hook.runs)),
        failed: hook.status == HookStatus::Failed,
    }
}

fn call_span(outcome: &OutcomeRecord) -> Span {
    let OutcomeRecord { call, usage, .. } = outcome;
    let usage = usage.unwrap_or_default();
    let time = TimeRange::ending_at(SystemTime::now(), call.elapsed);
    let operation = operation_name(call.method);
    let name = format!("{operation} {}", call.requested_model);
    let status = outcome.status;
    let error = match outcome.error {
        Some(code) => Some(code.to_owned()),
        None if status >= 400 => Some(status.to_string()),
        None if outcome.ended == "truncated" => Some(outcome.ended.to_owned()),
        None => None,
    };
    let status = (status > 0).then_some(status.into());
    Span {
        trace: call.trace,
        name: name.trim_end().to_owned(),
        kind: SpanKind::Client,
        started: time.started,
        ended: time.ended,
        attributes: request_attributes(&outcome.request, &outcome.session, &outcome.caller.name)
            .text("gen_ai.operation.name", operation)
            .text("gen_ai.provider.name", provider_name(call.dialect))
            .text("gen_ai.conversation.id", &outcome.session)
            .text("gen_ai.request.model", &call.requested_model)
            .text("gen_ai.response.model", &call.response_model)
            .number("gen_ai.usage.input_tokens", usage.prompt)
            .number("gen_ai.usage.output_tokens", usage.candidates)
            .number("http.response.status_code", status)
            .text("error.type", error.as_deref().unwrap_or_default())
            .text("hookgate.method", call.method)
            .text("hookgate.model.called", &outcome.model)
            .text("hookgate.action", outcome.action)
            .text("hookgate.ended", outcome.ended)
            .number("hookgate.rounds", Some(outcome.rounds.into()))
            .number("hookgate.chunks", Some(outcome.chunks)),
        failed: error.is_some(),
    }
}

/// Returns the attributes that all spans of a request have.
fn request_attributes(request: &str, session: &str, caller: &str) -> Attributes {
    Attributes::default()
        .text("hookgate.request.id", request)
        .text("hookgate.session.id", session)
        .text("hookgate.caller.name", caller)
}

/// Returns `gen_ai.operation.name`: the conventions' name, or the method's own.
fn operation_name(method: &str) -> &str {
    match method {
        "generateContent" | "streamGenerateContent" => "generate_content",
        "messages.create" | "responses.create" | "chat.completions.create" => "chat",
        "embedContent" | "batchEmbedContents" | "embeddings.create" => "embeddings",
        other => other,
    }
}

/// Returns the attribute `gen_ai.provider.name`.
fn provider_name(dialect: &str) -> &'static str {
    match dialect {
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "anthropic" => "anthropic",
        "openai_chat" | "openai_responses" => "openai",
        _ => "gcp.gen_ai",
    }
}

/// Returns the log record of a line, whose body is the line without content.
fn log_record(mask: &SinkMask, line: &[u8]) -> Option<LogRecord> {
    let line = masked(mask, line)?;
    let fields: LineFields<'_> = serde_json::from_slice(&line).ok()?;
    Some(LogRecord {
        trace: fields.trace.map_or_else(Trace::default, Trace::from),
        name: format!("hookgate.{}", fields.kind),
        time: fields.time.into(),
        attributes: Attributes::default()
            .text("hookgate.kind", &fields.kind)
            .text("hookgate.request.id", &fields.request)
            .text("hookgate.session.id", &fields.session)
            .number("hookgate.audit.seq", fields.seq)
            .text("hookgate.audit.prev", &fields.prev)
            .text("hookgate.audit.hash", &fields.hash),
        body: str::from_utf8(&line).ok()?.to_owned(),
    })
}

fn deserialize_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}
