//! Observability: log output, Prometheus metrics, and export to an OTLP collector.
//!
//! Logs, metrics and errors never hold prompts, responses, queries or credentials.
//! A log line is a `tracing` call where a failure is handled; a metric is a field of
//! [`Metrics`]; a span is made of a decision log record (`audit_log`). What happens to a
//! request goes through its [`recorder::Recorder`] to sinks for all of these.

mod bundle_status;
mod export_failures;
mod kept_series;
mod log;
mod log_format;
mod metrics;
mod model_reader;
pub mod otlp;
pub mod recorder;
pub mod redaction;
mod time_buckets;
mod token_usage;
pub mod trace;
mod truncated;
mod usage_scanner;

pub use self::{
    bundle_status::{BundleStatus, BundleStatuses},
    export_failures::{AUDIT_SINK, ExportFailure},
    log::{InvalidFilter, LogGuard, init},
    metrics::{Metrics, ReloadOutcome, bundles::BundleFetch},
    model_reader::ModelReader,
    time_buckets::{HourlyCounts, TimeBuckets},
    token_usage::{TokenSum, TokenUsage},
    truncated::{MAX_NAME_BYTES, truncated},
    usage_scanner::{ReportedTokens, UsageScanner},
};
