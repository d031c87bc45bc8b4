//! The trace and span of a record, as its line holds them.

use serde::{Deserialize, Serialize};

use crate::event::Trace;

/// Ids of the span that a line belongs to, in hex.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpanIds {
    /// 32 digits of the trace id.
    id: String,
    /// 16 digits of the span id.
    span: String,
}

impl SpanIds {
    /// Returns the ids of a span; `None` if tracing is disabled.
    pub(super) fn of(trace: Trace) -> Option<Self> {
        let Trace { id, span, .. } = trace;
        trace.is_enabled().then(|| Self {
            id: format!("{id:032x}"),
            span: format!("{span:016x}"),
        })
    }
}

impl From<SpanIds> for Trace {
    fn from(ids: SpanIds) -> Self {
        Self {
            id: u128::from_str_radix(&ids.id, 16).unwrap_or_default(),
            span: u64::from_str_radix(&ids.span, 16).unwrap_or_default(),
            parent: 0,
        }
    }
}
