//! What a collector is told: each event, each of its hooks and each call as a
//! span, by the conventions for generative AI where they have a name for it; and
//! lines as log records, without content whatever the log holds.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use uuid::Uuid;

use super::{
    AuditError,
    rate_limit::{Admitted, Flood},
    record::{EventRecord, HookRecord, OutcomeRecord, Period, Record, write},
};
use crate::{
    config::OtlpSettings,
    event::Trace,
    observe::{
        Metrics,
        otlp::{Attributes, Collector, Exporter, LogRecord, Span, SpanKind},
    },
};

/// One collector.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) settings: OtlpSettings,
    pub(super) exporter: Exporter,
    flood: Flood,
}

impl Export {
    pub(super) fn new(settings: &OtlpSettings, metrics: &Arc<Metrics>) -> Result<Self, AuditError> {
        let collector = Collector {
            endpoint: &settings.endpoint,
            headers: settings.header_map(),
            service_name: &settings.service_name,
            traces: settings.traces,
            logs: settings.logs,
        };
        Ok(Self {
            settings: settings.clone(),
            exporter: Exporter::new(&collector, metrics)?,
            flood: Flood::default(),
        })
    }

    /// What is to be told of one more request that was turned away.
    pub(super) fn admit(&self) -> Admitted {
        self.flood.admit(Instant::now())
    }

    /// Never waits.
    pub(super) fn tell(&self, record: &Record, config: &str) {
        if self.exporter.exports_traces() {
            match record {
                Record::Event(event) => self.event(event),
                Record::Outcome(outcome) => self.exporter.record_span(&call(outcome)),
                _ => (),
            }
        }
        if self.exporter.exports_logs() {
            self.exporter.record_log(&line(record, config));
        }
    }

    /// An event of a call is a part of it; any other stands for itself.
    fn event(&self, event: &EventRecord) {
        let trace = match (event.trace.is_enabled(), event.origin) {
            (false, _) => begun(None),
            (true, "reported") => event.trace,
            (true, _) => event.trace.child(fresh_span()),
        };
        self.exporter.record_span(&Span {
            trace,
            name: event.event.as_str().to_owned(),
            kind: SpanKind::Internal,
            started: event.time.started,
            ended: event.time.ended,
            attributes: known(&event.request, &event.session, &event.caller.name)
                .text("hookgate.event", event.event.as_str())
                .text("hookgate.origin", event.origin)
                .text(
                    "hookgate.subject",
                    event.subject.as_deref().unwrap_or_default(),
                )
                .text("hookgate.verdict", event.verdict.as_str())
                .number("hookgate.chunks", event.chunks),
            failed: false,
        });
        for hook in &event.hooks {
            self.exporter.record_span(&of_hook(hook, trace));
        }
    }
}

/// A span within what an agent sends as `traceparent`, if it sends one.
pub(super) fn begun(traceparent: Option<&str>) -> Trace {
    Trace::from_traceparent(traceparent, Uuid::new_v4().as_u128(), fresh_span())
}

/// Not zero: a UUID has bits that are always set.
fn fresh_span() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

fn of_hook(hook: &HookRecord, of_event: Trace) -> Span {
    Span {
        trace: of_event.child(fresh_span()),
        name: format!("hook {}", hook.name),
        kind: SpanKind::Internal,
        started: hook.time.started,
        ended: hook.time.ended,
        attributes: Attributes::default()
            .text("hookgate.hook.name", &hook.name)
            .text("hookgate.hook.status", hook.status)
            .text("hookgate.hook.would", hook.would.unwrap_or_default())
            .number("hookgate.hook.ms", Some(hook.ms))
            .number("hookgate.hook.runs", hook.runs),
        failed: hook.status == "failed",
    }
}

fn call(outcome: &OutcomeRecord) -> Span {
    let OutcomeRecord { call, usage, .. } = outcome;
    let usage = usage.unwrap_or_default();
    let ended = SystemTime::now();
    let operation = operation(call.method);
    let status = outcome.status;
    let error = outcome.error.map(str::to_owned);
    let error = error.or_else(|| (status >= 400).then(|| status.to_string()));
    let error = error.or_else(|| (outcome.ended == "truncated").then(|| "truncated".to_owned()));
    Span {
        trace: call.trace,
        name: format!("{operation} {}", call.asked).trim_end().to_owned(),
        kind: SpanKind::Client,
        started: before(ended, call.elapsed),
        ended,
        attributes: known(&outcome.request, &outcome.session, &outcome.caller.name)
            .text("gen_ai.operation.name", operation)
            .text("gen_ai.provider.name", provider(call.dialect))
            .text("gen_ai.conversation.id", &outcome.session)
            .text("gen_ai.request.model", &call.asked)
            .text("gen_ai.response.model", &call.answered)
            .number("gen_ai.usage.input_tokens", usage.prompt)
            .number("gen_ai.usage.output_tokens", usage.candidates)
            .number(
                "http.response.status_code",
                (status > 0).then_some(status.into()),
            )
            .text("error.type", error.as_deref().unwrap_or_default())
            .text("hookgate.method", call.method)
            .text("hookgate.model.called", &outcome.called)
            .text("hookgate.action", outcome.action)
            .text("hookgate.ended", outcome.ended)
            .number("hookgate.rounds", Some(outcome.rounds.into()))
            .number("hookgate.chunks", Some(outcome.chunks)),
        failed: error.is_some(),
    }
}

/// What all spans of a request have.
fn known(request: &str, session: &str, caller: &str) -> Attributes {
    Attributes::default()
        .text("hookgate.request.id", request)
        .text("hookgate.session.id", session)
        .text("hookgate.caller.name", caller)
}

/// What the conventions call it; our name, if they have none.
fn operation(method: &str) -> &str {
    match method {
        "generateContent" | "streamGenerateContent" => "generate_content",
        "embedContent" | "batchEmbedContents" => "embeddings",
        other => other,
    }
}

/// What the conventions call a model API.
fn provider(dialect: &str) -> &'static str {
    match dialect {
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        _ => "gcp.gen_ai",
    }
}

fn line(record: &Record, config: &str) -> LogRecord {
    let fields = write(record, config);
    let whole = [b"{", fields.as_slice(), b"}"].concat();
    // What was just written as JSON always is JSON.
    let mut line: Value = serde_json::from_slice(&whole).unwrap_or_default();
    let mut known = Attributes::default();
    let mut name = String::new();
    if let Some(fields) = line.as_object_mut() {
        // Content is a `text` beside its hash, and nowhere else.
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            field.shift_remove("text");
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        name = format!("hookgate.{}", text("kind"));
        known = known
            .text("hookgate.kind", text("kind"))
            .text("hookgate.request.id", text("request"))
            .text("hookgate.session.id", text("session"));
    }
    LogRecord {
        trace: record.trace(),
        name,
        time: SystemTime::now(),
        body: line.to_string(),
        attributes: known,
    }
}

/// A clock may have been set back; nothing ends before it begins.
pub(super) fn before(ended: SystemTime, elapsed: Duration) -> SystemTime {
    ended.checked_sub(elapsed).unwrap_or(ended)
}

impl Period {
    /// What has just ended.
    pub fn ended(elapsed: Duration, ended: SystemTime) -> Self {
        Self {
            started: before(ended, elapsed),
            ended,
        }
    }

    /// From the start of the first to the end of the last.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            started: self.started.min(other.started),
            ended: self.ended.max(other.ended),
        }
    }
}
