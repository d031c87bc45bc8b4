//! The decision log: one JSON line for each model call, event, rejected request and
//! reload, linked by a hash chain.
//!
//! [`AuditLog::append`] queues a record and never waits; one thread writes what is
//! queued. If the log is durable, [`AuditLog::commit`] waits until the queued records
//! are on disk. A collector receives the same records over OTLP. This module must not
//! know hooks, documents or HTTP, and holds no credential. To add a record: a variant of
//! [`AuditRecord`], and `docs/audit.md`.

mod body_digest;
mod decision_log;
mod error;
mod hash_chain;
mod log_file;
mod open_log;
mod otlp;
mod rate_limit;
mod reader;
mod record;
mod recorder_sink;
mod response_tail;
mod run_stats;
mod time_range;
mod write_queue;
mod writer;

pub use self::{
    body_digest::{BodyDigest, BodyHasher},
    decision_log::{AuditLog, Checkpoint},
    error::AuditError,
    open_log::OpenLogs,
    reader::{LogLine, ReadError, Verification, lines, verify},
    record::{
        AuditRecord, CallSpan, CallerRecord, EventRecord, HookRunRecord, OutcomeRecord,
        RejectionRecord, RequestRecord, TextDigest, TokenCounts, short_name,
    },
    recorder_sink::DecisionLogSink,
};

#[cfg(test)]
mod tests;
