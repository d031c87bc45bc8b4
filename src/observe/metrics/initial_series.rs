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
        for outcome in ["applied", "rejected"] {
            let labels = [("outcome", outcome.into())];
            self.config_reloads.get_or_create(&labels).inc_by(0);
        }
        for event in EventName::ALL {
            let labels = [("event", event.as_str().into())];
            self.denials.get_or_create(&labels).inc_by(0);
        }
        for config in ["current", "candidate"] {
            let labels = [("config", config.into())];
            self.rollout_calls.get_or_create(&labels).inc_by(0);
        }
        for outcome in ["sent", "refused", "lost"] {
            self.record_sink_lines(outcome, 0);
        }
        for signal in ["traces", "logs"] {
            self.record_export(signal, "sent", 0);
            self.record_export(signal, "dropped", 0);
        }
        let by_reason = [
            (&self.auth_failures, AUTH_FAILURES),
            (&self.rejected_connections, REJECTED_CONNECTIONS),
            (&self.audit_sink_failures, SINK_FAILURES),
            (&self.shadow_ends, SHADOW_ENDS),
        ];
        for (family, reasons) in by_reason {
            for reason in reasons.iter().copied() {
                let labels = [("reason", reason.into())];
                family.get_or_create(&labels).inc_by(0);
            }
        }
    }

    /// Creates the series of an upstream's failures.
    pub fn create_upstream_failures(&self, upstream: &str) {
        for reason in UPSTREAM_FAILURES.iter().copied() {
            let labels = [
                ("upstream", upstream.to_owned().into()),
                ("reason", reason.into()),
            ];
            self.upstream_failures.get_or_create(&labels).inc_by(0);
        }
    }

    /// Creates the series of an upstream's fallback.
    pub fn create_fallback(&self, upstream: &str) {
        let labels = [("upstream", upstream.to_owned().into())];
        self.upstream_fallbacks.get_or_create(&labels).inc_by(0);
    }

    /// Creates the series of a hook's runs on an event.
    pub fn create_hook_runs(&self, event: EventName, hook: &str) {
        for status in [HookStatus::Ok, HookStatus::Block, HookStatus::Failed] {
            let labels = [
                ("event", event.as_str().into()),
                ("hook", hook.to_owned().into()),
                ("status", status.as_str().into()),
            ];
            self.hook_runs.get_or_create(&labels).inc_by(0);
        }
    }
}
