//! Answers of the trace: pages, one call with its neighbours, denials, and the size.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::observe::trace::{
    record::{CallRecord, call_summary::CallSummary},
    store::denials::DenialGroup,
};

/// One page of calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallList {
    /// Calls that match, newest first.
    #[serde(serialize_with = "as_summaries")]
    #[schema(value_type = Vec<CallSummary<'_>>)]
    pub calls: Vec<Arc<CallRecord>>,
    /// Cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// Position of the last call that had ended, matching or not. `/calls/stream` continues behind
    /// it.
    pub last_seq: u64,
    /// Calls that were searched for this page.
    pub scanned: ScanRange,
}

/// The records that a search went through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ScanRange {
    /// Number of records that were searched.
    pub records: usize,
    /// Time of the oldest of them: RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Time of the newest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// True if it went to the oldest record that is kept.
    pub is_complete: bool,
}

/// One record, and its neighbours that match a filter.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallView {
    /// The record of the call itself.
    pub call: Arc<CallRecord>,
    /// Request id of the next newer record that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<Arc<str>>,
    /// Request id of the next older record that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older: Option<Arc<str>>,
    /// True if content of the call is kept.
    pub has_content: bool,
}

/// Denials by rule, reason and tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct DenialList {
    /// Groups since the start of the process, those with the most denials of the last 24 hours
    /// first.
    pub groups: Vec<DenialGroup>,
    /// Number of groups that were evicted.
    pub evicted: u64,
}

/// Size of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct TraceStatus {
    /// Number of records that are kept.
    pub records: usize,
    /// Sequence number of the last record.
    pub last_seq: u64,
    /// Bytes in use, those of exchanges in flight included.
    pub bytes: usize,
    /// Bytes of exchanges in flight.
    pub in_flight_bytes: usize,
    /// Upper bound of `bytes`.
    pub max_bytes: usize,
    /// Bytes of content in use.
    pub content_bytes: usize,
    /// Details that were not kept for lack of memory.
    pub dropped_details: u64,
    /// Records that were not kept for lack of memory.
    pub dropped_records: u64,
}

/// Writes one line for each record.
fn as_summaries<S: Serializer>(
    calls: &[Arc<CallRecord>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(calls.iter().map(|call| call.summary()))
}
