//! Observability: log output, Prometheus metrics, and export to an OTLP collector.
//!
//! Logs, metrics and errors never hold prompts, responses, queries or credentials.
//! A log line is a `tracing` call where a failure is handled; a metric is a field of
//! [`Metrics`]; a span is made of a decision log record (`audit_log`).

mod exchange;
mod hook;
mod log;
mod log_format;
mod metrics;
pub mod otlp;
mod upstream;

pub use self::{
    exchange::{Ended, ExchangeFinished},
    hook::{HookFinished, PolicySilent},
    log::{LogFormat, LogGuard, init},
    metrics::{Metrics, ReloadOutcome},
    upstream::UpstreamFailed,
};
