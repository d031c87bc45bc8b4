//! Series that exist at 0 from the start, so that alerts on their increase see the first one.

use super::Metrics;
use crate::event::{EventName, HookStatus};

/// Reasons of failed authentication attempts.
const AUTH_FAILURES: &[&str] = &[
    "missing",
    "certificate_not_allowed",
    "unknown",
    "invalid_token",
    "issuer_unavailable",
    "ambiguous",
    "no_randomness",
    "throttled",
];

/// Reasons of connections that are rejected or closed early.
const REJECTED_CONNECTIONS: &[&str] =
    &["limit", "tls_handshake", "header_timeout", "write_timeout"];

/// Reasons of failed attempts of the decision log's HTTP sink.
const SINK_FAILURES: &[&str] = &["connection", "timeout", "status", "response", "disk"];

/// Reasons of the ends of shadows.
const SHADOW_ENDS: &[&str] = &[
    "until", "operator", "reload", "shutdown", "panic", "deadline", "failed",
];

/// Reasons of failures of an upstream.
const UPSTREAM_FAILURES: &[&str] = &["connect", "broken", "timeout", "gateway"];

impl Metrics {
    /// Creates the series whose labels come from fixed lists of this module.
    pub(super) fn create_fixed_series(&self) {
        for event in EventName::ALL {
            self.denials.with([event.as_str().into()]);
        }
        for signal in ["traces", "logs"] {
            self.otlp_items.with([signal.into(), "sent".into()]);
            self.otlp_items.with([signal.into(), "dropped".into()]);
        }
        let by_one_label: [(_, &[&str]); _] = [
            (&self.config_reloads, &["applied", "rejected"]),
            (&self.rollout_calls, &["current", "candidate"]),
            (&self.audit_sink_lines, &["sent", "refused", "lost"]),
            (&self.auth_failures, AUTH_FAILURES),
            (&self.rejected_connections, REJECTED_CONNECTIONS),
            (&self.audit_sink_failures, SINK_FAILURES),
            (&self.shadow_ends, SHADOW_ENDS),
        ];
        for (family, values) in by_one_label {
            for value in values.iter().copied() {
                family.with([value.into()]);
            }
        }
    }

    /// Creates the series of an upstream's failures.
    pub fn create_upstream_failures(&self, upstream: &str) {
        for reason in UPSTREAM_FAILURES.iter().copied() {
            let values = [upstream.to_owned().into(), reason.into()];
            self.upstream_failures.with(values);
        }
    }

    /// Creates the series of a hook's runs on an event.
    pub fn create_hook_runs(&self, event: EventName, hook: &str) {
        for status in [HookStatus::Ok, HookStatus::Block, HookStatus::Failed] {
            self.hook_runs(event, hook, status);
        }
    }
}
