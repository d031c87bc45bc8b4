//! Spans and log records on their way to a collector, as OTLP over HTTP, in JSON.
//!
//! Nobody waits for a collector. What it does not take waits within a bound, and
//! what comes on top of that is dropped and counted.

mod encode;
mod exporter;

use std::sync::Arc;

use http::HeaderMap;
use tokio_util::task::TaskTracker;
use url::Url;

use self::{
    encode::Frame,
    exporter::{Pipe, Worker},
};
pub use self::{
    encode::{Attributes, LogRecord, Span, SpanKind},
    exporter::ClientError,
};
use super::Metrics;

/// What is sent to a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Logs,
}

impl Signal {
    /// Its name in paths and metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
        }
    }
}

/// A collector, and what it is told.
#[derive(Debug)]
pub struct Collector<'a> {
    /// Its base: `/v1/traces` and `/v1/logs` come behind it.
    pub endpoint: &'a Url,
    /// What is shown to it.
    pub headers: HeaderMap,
    /// What this gateway is called there.
    pub service_name: &'a str,
    /// Whether it is told of spans.
    pub traces: bool,
    /// Whether it is told of log records.
    pub logs: bool,
}

/// Hands spans and log records to a collector. What waits when it is dropped is
/// still sent, within a bound.
#[derive(Debug)]
pub struct Exporter {
    traces: Option<Pipe>,
    logs: Option<Pipe>,
}

impl Exporter {
    /// An exporter that sends nothing before [`Self::begin`].
    pub fn new(collector: &Collector<'_>, metrics: &Arc<Metrics>) -> Result<Self, ClientError> {
        let pipe = |signal| {
            let frame = Frame::new(signal, collector.service_name);
            Worker::new(collector, signal, frame, Arc::clone(metrics)).map(Pipe::new)
        };
        Ok(Self {
            traces: collector.traces.then(|| pipe(Signal::Traces)).transpose()?,
            logs: collector.logs.then(|| pipe(Signal::Logs)).transpose()?,
        })
    }

    /// Sends from now on.
    pub fn begin(&self, tasks: &TaskTracker) {
        let workers = [&self.traces, &self.logs].into_iter().flatten();
        for worker in workers.filter_map(Pipe::worker) {
            tasks.spawn(worker.run());
        }
    }

    /// Whether spans are told.
    pub const fn traces(&self) -> bool {
        self.traces.is_some()
    }

    /// Whether log records are told.
    pub const fn logs(&self) -> bool {
        self.logs.is_some()
    }

    /// Adds a span. Never waits.
    pub fn span(&self, span: &Span) {
        if let Some(pipe) = &self.traces {
            pipe.push(span.to_json());
        }
    }

    /// Adds a log record. Never waits.
    pub fn log(&self, record: &LogRecord) {
        if let Some(pipe) = &self.logs {
            pipe.push(record.to_json());
        }
    }
}
