//! Checks of the OTLP collector's settings, and of headers that exporters send.

use std::collections::BTreeSet;

use http::{HeaderName, header};

use super::{loader::Loader, pointers::matching};
use crate::config::{
    settings::{telemetry::OtlpSettings, trace::TraceSettings},
    spanned_yaml::unescape,
};

/// Headers that exporters set themselves.
const RESERVED_HEADERS: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::TRANSFER_ENCODING,
];

/// Memory of the live trace that its tables take.
const MIN_TRACE_BYTES: usize = 4 * 1024 * 1024;

impl Loader {
    pub(super) fn check_trace(&mut self) {
        let trace: Option<TraceSettings> = self.section("/trace");
        if trace.is_some_and(|trace| trace.memory < MIN_TRACE_BYTES) {
            self.problem("/trace/memory", "`trace.memory` must be at least 4MiB");
        }
    }

    pub(super) fn check_telemetry(&mut self) {
        let otlp: Option<OtlpSettings> = self.section("/telemetry/otlp");
        if otlp.is_some_and(|otlp| !otlp.traces && !otlp.logs) {
            self.problem("/telemetry/otlp", "`traces` or `logs` must be true");
        }
        self.check_headers("/telemetry/otlp/headers/*");
    }

    /// Checks the names of the headers of an exporter, whose pointers match `pattern`.
    pub(super) fn check_headers(&mut self, pattern: &str) {
        let mut names = BTreeSet::new();
        for pointer in matching(&self.value, pattern) {
            let name = pointer.rsplit('/').next().map(unescape).unwrap_or_default();
            let Ok(name) = HeaderName::try_from(name) else {
                self.problem(&pointer, "invalid header name");
                continue;
            };
            if RESERVED_HEADERS.contains(&name) || !names.insert(name.as_str().to_owned()) {
                self.problem(&pointer, "this header is already set");
            }
        }
    }
}
