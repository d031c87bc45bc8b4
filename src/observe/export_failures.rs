//! Last failures of what sends telemetry and log lines.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::mutex::Mutex;

/// Data that leaves this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Export {
    /// Lines of the decision log for its HTTP sink.
    AuditSink,
    /// Spans for the collector.
    Traces,
    /// Log records for the collector.
    Logs,
}

/// Last failed attempt to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFailure {
    /// Time of the attempt.
    pub time: Timestamp,
    /// Reason why it failed.
    pub error: String,
    /// True if no attempt has succeeded since.
    pub is_current: bool,
}

/// Last failed attempts of all exports.
#[derive(Debug, Default)]
pub struct ExportFailures(Mutex<BTreeMap<Export, ExportFailure>>);

impl ExportFailures {
    /// Keeps the reason why an attempt to send failed.
    pub fn keep(&self, export: Export, error: String) {
        let failure = ExportFailure {
            time: Timestamp::now(),
            error,
            is_current: true,
        };
        self.0.lock().insert(export, failure);
    }

    /// Marks the last failure of an export as over.
    pub fn end(&self, export: Export) {
        if let Some(failure) = self.0.lock().get_mut(&export) {
            failure.is_current = false;
        }
    }

    /// Returns the last failed attempt of an export since the start.
    pub fn last(&self, export: Export) -> Option<ExportFailure> {
        self.0.lock().get(&export).cloned()
    }
}
