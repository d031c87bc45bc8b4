//! Last failures of what sends telemetry and log lines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{mutex::Mutex, timestamp::rfc3339};

/// Export of lines of the decision log to its HTTP sink. Others are named by their signal.
pub const AUDIT_SINK: &str = "audit_sink";

/// Failed attempt to send lines, spans or log records.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ExportFailureView)]
pub struct ExportFailure {
    /// Time of the attempt: RFC 3339 in UTC.
    pub time: String,
    /// Reason why it failed.
    pub error: String,
    /// True if no attempt has succeeded since.
    pub is_current: bool,
}

/// Last failed attempts of all exports, by the name of the export.
#[derive(Debug, Default)]
pub struct ExportFailures(Mutex<BTreeMap<&'static str, ExportFailure>>);

impl ExportFailures {
    /// Keeps the reason why an attempt to send failed.
    pub fn keep(&self, export: &'static str, error: String) {
        let failure = ExportFailure {
            time: rfc3339(Timestamp::now()),
            error,
            is_current: true,
        };
        self.0.lock().insert(export, failure);
    }

    /// Marks the last failure of an export as over.
    pub fn end(&self, export: &str) {
        if let Some(failure) = self.0.lock().get_mut(export) {
            failure.is_current = false;
        }
    }

    /// Returns the last failed attempt of an export since the start.
    pub fn last(&self, export: &str) -> Option<ExportFailure> {
        self.0.lock().get(export).cloned()
    }
}
