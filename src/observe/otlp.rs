//! Export of spans and log records to a collector: OTLP over HTTP, encoded as JSON.
//!
//! Recording never waits. Each signal has a queue that is bounded in bytes and a task
//! that sends it; items that do not fit or are rejected are dropped and counted in
//! `hookgate_otlp_items_total`.

mod encode;
mod exporter;

use std::sync::Arc;

use tokio_util::task::TaskTracker;

pub use self::encode::{Attributes, LogRecord, Span, SpanKind};
use self::{encode::Signal, exporter::SignalQueue};
use super::metrics::Metrics;
use crate::{config::OtlpSettings, service_client::ClientError};

/// Exports spans and log records to a collector. After it is dropped, queued items are
/// still sent for two seconds.
#[derive(Debug)]
pub struct Exporter {
    traces: Option<SignalQueue>,
    logs: Option<SignalQueue>,
}

impl Exporter {
    /// Creates an exporter that sends nothing before [`Self::start`].
    ///
    /// # Errors
    ///
    /// Fails if the HTTP client cannot be built.
    pub fn new(settings: &OtlpSettings, metrics: &Arc<Metrics>) -> Result<Self, ClientError> {
        let queue = |signal| SignalQueue::new(settings, signal, Arc::clone(metrics));
        Ok(Self {
            traces: settings.traces.then(|| queue(Signal::Traces)).transpose()?,
            logs: settings.logs.then(|| queue(Signal::Logs)).transpose()?,
        })
    }

    /// Starts sending, unless it was started before.
    pub fn start(&self, tasks: &TaskTracker) {
        let queues = [&self.traces, &self.logs].into_iter().flatten();
        for task in queues.filter_map(SignalQueue::take_task) {
            tasks.spawn(task.run());
        }
    }

    /// Returns whether spans are exported.
    pub const fn exports_traces(&self) -> bool {
        self.traces.is_some()
    }

    /// Returns whether log records are exported.
    pub const fn exports_logs(&self) -> bool {
        self.logs.is_some()
    }

    /// Queues a span, if spans are exported. Does not block.
    pub fn record_span(&self, span: &Span) {
        if let Some(queue) = &self.traces {
            queue.push(span.to_json());
        }
    }

    /// Queues a log record, if log records are exported. Does not block.
    pub fn record_log(&self, record: &LogRecord) {
        if let Some(queue) = &self.logs {
            queue.push(record.to_json());
        }
    }
}
