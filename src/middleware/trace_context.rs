//! Trace context of a request.

use http::HeaderMap;

use crate::{audit_log::AuditLog, event::Trace};

/// Returns the span of a request, which continues the trace of a W3C `traceparent`
/// header. Empty if spans are not exported.
pub fn trace_context(audit: Option<&AuditLog>, headers: &HeaderMap) -> Trace {
    let Some(audit) = audit else {
        return Trace::default();
    };
    // Of several headers, none counts (Trace Context, section 3.2).
    let mut values = headers.get_all("traceparent").iter();
    let single = values.next().filter(|_| values.next().is_none());
    audit.start_trace(single.and_then(|value| value.to_str().ok()))
}
