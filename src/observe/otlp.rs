//! Export of spans and log records to a collector: OTLP over HTTP, encoded as JSON.
//!
//! Recording never waits. Each signal has a queue that is bounded in bytes and a task
//! that sends it; items that do not fit or are rejected are dropped and counted in
//! `hookgate_otlp_items_total`.

mod encode;
mod exporter;

pub use self::{
    encode::{Attributes, LogRecord, Signal, Span, SpanKind},
    exporter::SignalQueue,
};
