//! Spans and log records as OTLP writes them in JSON: ids in hex, times and whole
//! numbers as texts.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

use super::Signal;
use crate::event::Trace;

/// Names, each with what it stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<Value>);

/// On which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Neither.
    Internal,
    /// It calls somebody.
    Client,
}

/// Something that took a while.
#[derive(Debug)]
pub struct Span {
    /// Its place in its trace.
    pub trace: Trace,
    /// What it is called.
    pub name: String,
    /// On which side of a call it is.
    pub kind: SpanKind,
    /// When it began.
    pub started: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// What is known of it.
    pub attributes: Attributes,
    /// Whether it came to an error.
    pub failed: bool,
}

/// Something that happened.
#[derive(Debug)]
pub struct LogRecord {
    /// The span that it happened in, if anything is traced.
    pub trace: Trace,
    /// What kind of thing it is.
    pub name: String,
    /// When it happened.
    pub time: SystemTime,
    /// All of it.
    pub body: String,
    /// What it is looked for by.
    pub attributes: Attributes,
}

/// What stands before and behind the spans or records of one request.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) before: String,
    pub(super) behind: &'static str,
}

impl Attributes {
    /// The same, with a text; an empty one is left out.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        if !text.is_empty() {
            let value = json!({ "stringValue": text });
            self.0.push(json!({ "key": name, "value": value }));
        }
        self
    }

    /// The same, with a number, if there is one.
    #[must_use]
    pub fn number(mut self, name: &str, number: Option<u64>) -> Self {
        // OTLP has signed numbers.
        if let Some(number) = number.and_then(|it| i64::try_from(it).ok()) {
            let value = json!({ "intValue": number.to_string() });
            self.0.push(json!({ "key": name, "value": value }));
        }
        self
    }
}

impl Span {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let Trace { id, span, parent } = self.trace;
        let kind = match self.kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        };
        let mut fields = json!({
            "traceId": format!("{id:032x}"),
            "spanId": format!("{span:016x}"),
            "name": self.name,
            "kind": kind,
            "startTimeUnixNano": nanoseconds(self.started),
            "endTimeUnixNano": nanoseconds(self.ended),
            "attributes": self.attributes.0,
            "flags": 1,
        });
        if let Some(fields) = fields.as_object_mut() {
            if parent != 0 {
                fields.insert("parentSpanId".into(), format!("{parent:016x}").into());
            }
            if self.failed {
                fields.insert("status".into(), json!({ "code": 2 }));
            }
        }
        fields.to_string().into_bytes()
    }
}

impl LogRecord {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let time = nanoseconds(self.time);
        let mut fields = json!({
            "timeUnixNano": time,
            "observedTimeUnixNano": time,
            "severityNumber": 9,
            "severityText": "INFO",
            "eventName": self.name,
            "body": { "stringValue": self.body },
            "attributes": self.attributes.0,
        });
        if let (true, Some(fields)) = (self.trace.is_on(), fields.as_object_mut()) {
            let Trace { id, span, .. } = self.trace;
            fields.insert("traceId".into(), format!("{id:032x}").into());
            fields.insert("spanId".into(), format!("{span:016x}").into());
        }
        fields.to_string().into_bytes()
    }
}

impl Frame {
    pub(super) fn new(signal: Signal, service_name: &str) -> Self {
        let resource = Attributes::default()
            .text("service.name", service_name)
            .text("service.version", env!("CARGO_PKG_VERSION"))
            .text("service.instance.id", &Uuid::new_v4().to_string());
        let resource = json!({ "attributes": resource.0 });
        let scope = json!({ "name": "hookgate", "version": env!("CARGO_PKG_VERSION") });
        let (of_resources, of_scopes, items) = match signal {
            Signal::Traces => ("resourceSpans", "scopeSpans", "spans"),
            Signal::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
        };
        let scopes = format!(r#""{of_scopes}":[{{"scope":{scope},"{items}":["#);
        Self {
            before: format!(r#"{{"{of_resources}":[{{"resource":{resource},{scopes}"#),
            behind: "]}]}]}",
        }
    }
}

/// Since 1970; what was before is then.
fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}
