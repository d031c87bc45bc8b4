//! The decision log: one JSON line for each model call, event, rejected request and
//! reload, linked by a hash chain.
//!
//! [`AuditLog::append`] queues a record and never waits; the writer thread of a
//! `chained_log` writes what is queued. If the log is durable, [`AuditLog::commit`] waits
//! until the queued records are on disk. A collector receives the written lines over OTLP,
//! and an HTTP endpoint by `http_sink`, the only part that uses HTTP. This module must not
//! depend on hooks or documents. To add a record: a variant of
//! [`AuditRecord`], and `docs/audit.md`.

mod body_digest;
mod decision_log;
mod field_mask;
mod hook_run_record;
mod http_sink;
mod open_log;
mod otlp;
mod promotion_record;
mod rate_limit;
mod record;
mod recorder_sink;
mod run_stats;
mod shadow_record;
mod span_ids;
mod time_range;

pub use self::{
    body_digest::{BodyDigest, BodyHasher},
    decision_log::{AuditError, AuditLog, Checkpoint},
    hook_run_record::HookRunRecord,
    open_log::OpenLogs,
    promotion_record::{PromotionKind, PromotionRecord, RolloutKind, RolloutRecord},
    record::{
        AuditRecord, CallSpan, CallerRecord, EventRecord, OutcomeRecord, RejectionRecord,
        RequestRecord, TextDigest, ViewRecord, short_name,
    },
    recorder_sink::DecisionLogSink,
    shadow_record::{ShadowChange, ShadowEnd, ShadowRecord},
};

#[cfg(test)]
mod tests;
