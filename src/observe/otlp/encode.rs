//! OTLP's JSON encoding of spans and log records: ids in hex, times and 64-bit
//! integers as strings.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::event::Trace;

const SEVERITY_NUMBER_INFO: u8 = 9;
const STATUS_CODE_ERROR: u8 = 2;
const FLAG_SAMPLED: u8 = 1;

/// Kind of the exported telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans, sent to `/v1/traces`.
    Traces,
    /// Log records, sent to `/v1/logs`.
    Logs,
}

/// Attributes of a span, a log record or a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<Value>);

/// Relationship of a span to its parent, as OpenTelemetry defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// An operation within the process.
    Internal = 1,
    /// A request to another process.
    Client = 3,
}

/// An operation with a duration.
#[derive(Debug)]
pub struct Span {
    /// Trace, span and parent ids.
    pub trace: Trace,
    /// Name of the operation.
    pub name: String,
    /// Relationship to the parent span.
    pub kind: SpanKind,
    /// Start of the span.
    pub started: SystemTime,
    /// End of the span.
    pub ended: SystemTime,
    /// Attributes of the operation.
    pub attributes: Attributes,
    /// True if the operation failed.
    pub failed: bool,
}

/// One record of the log signal.
#[derive(Debug)]
pub struct LogRecord {
    /// The span in which it was written, if traces are exported.
    pub trace: Trace,
    /// Name of the event.
    pub name: String,
    /// Time of the event.
    pub time: SystemTime,
    /// Complete record as text.
    pub body: String,
    /// Attributes by which collectors search.
    pub attributes: Attributes,
}

/// The JSON around the items of a request: resource and scope.
#[derive(Debug)]
pub(super) struct Envelope {
    prefix: String,
}

impl Signal {
    /// Returns the name in URLs, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
        }
    }
}

impl Attributes {
    /// Adds a text attribute, unless the text is empty.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        if !text.is_empty() {
            self.push(name, &json!({ "stringValue": text }));
        }
        self
    }

    /// Adds an integer attribute, if there is a number that OTLP's signed integers hold.
    #[must_use]
    pub fn number(mut self, name: &str, number: Option<u64>) -> Self {
        if let Some(number) = number.and_then(|number| i64::try_from(number).ok()) {
            self.push(name, &json!({ "intValue": number.to_string() }));
        }
        self
    }

    fn push(&mut self, name: &str, value: &Value) {
        self.0.push(json!({ "key": name, "value": value }));
    }
}

impl Span {
    /// Returns the span as a queue takes it.
    pub fn to_json(&self) -> Vec<u8> {
        let Trace { id, span, parent } = self.trace;
        let mut fields = json!({
            "traceId": format!("{id:032x}"),
            "spanId": format!("{span:016x}"),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": unix_nanoseconds(self.started),
            "endTimeUnixNano": unix_nanoseconds(self.ended),
            "attributes": self.attributes.0,
            "flags": FLAG_SAMPLED,
        });
        if let Some(fields) = fields.as_object_mut() {
            if parent != 0 {
                fields.insert("parentSpanId".into(), format!("{parent:016x}").into());
            }
            if self.failed {
                fields.insert("status".into(), json!({ "code": STATUS_CODE_ERROR }));
            }
        }
        fields.to_string().into_bytes()
    }
}

impl LogRecord {
    /// Returns the record as a queue takes it.
    pub fn to_json(&self) -> Vec<u8> {
        let time = unix_nanoseconds(self.time);
        let mut fields = json!({
            "timeUnixNano": time,
            "observedTimeUnixNano": time,
            "severityNumber": SEVERITY_NUMBER_INFO,
            "severityText": "INFO",
            "eventName": self.name,
            "body": { "stringValue": self.body },
            "attributes": self.attributes.0,
        });
        if let (true, Some(fields)) = (self.trace.is_enabled(), fields.as_object_mut()) {
            let Trace { id, span, .. } = self.trace;
            fields.insert("traceId".into(), format!("{id:032x}").into());
            fields.insert("spanId".into(), format!("{span:016x}").into());
        }
        fields.to_string().into_bytes()
    }
}

impl Envelope {
    const SUFFIX: &[u8] = b"]}]}]}";

    /// Creates the envelope of all requests of a signal, with a random
    /// `service.instance.id`.
    pub(super) fn new(signal: Signal, service_name: &str) -> Self {
        let resource = Attributes::default()
            .text("service.name", service_name)
            .text("service.version", env!("CARGO_PKG_VERSION"))
            .text("service.instance.id", &Uuid::new_v4().to_string());
        let resource = json!({ "attributes": resource.0 });
        let scope = json!({ "name": "hookgate", "version": env!("CARGO_PKG_VERSION") });
        let (resources, scopes, items) = match signal {
            Signal::Traces => ("resourceSpans", "scopeSpans", "spans"),
            Signal::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
        };
        let scopes = format!(r#""{scopes}":[{{"scope":{scope},"{items}":["#);
        Self {
            prefix: format!(r#"{{"{resources}":[{{"resource":{resource},{scopes}"#),
        }
    }

    /// Returns the body of a request with these items.
    pub(super) fn wrap(&self, items: &[&[u8]]) -> Vec<u8> {
        let items = items.join(&b',');
        [self.prefix.as_bytes(), &items, Self::SUFFIX].concat()
    }
}

/// Returns nanoseconds since the Unix epoch; 0 for earlier times.
fn unix_nanoseconds(time: SystemTime) -> String {
    let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    elapsed.as_nanos().to_string()
}
