//! The live trace: a bounded record of each exchange, for the admin API, the console and
//! `hookgate explain`.
//!
//! [`TraceSink`] receives the events of one exchange and makes its [`CallRecord`]: how the session
//! was found, each event with every policy and hook, what was edited and how long it took.
//! [`TraceStore`] keeps the last records within a memory bound, statistics of rules, and
//! denials. Records hold names, verdicts, sizes, digests and times. Content is kept apart, masked,
//! and only where the config or an operator asks for it.

mod filter;
mod histogram;
mod in_flight;
mod record;
mod rule;
mod sink;
mod store;

pub use self::{
    filter::{FilterError, TraceFilter, filter_keys},
    histogram::DurationHistogram,
    in_flight::{InFlightCall, InFlightCalls},
    record::{
        CallDetail, CallHead, CallRecord, RecordKind, SessionMatch, TimeSplit, TracedRound,
        TracedTokens,
        cache_effect::{CacheEffect, PromptParts},
        call_summary::{CallSummary, DecidingRule},
        chunk_strip::{ChunkSpan, ChunkStrip},
        document_diff::{ChangeKind, DocumentDiff, ValueChange},
        output_fields::OutputFields,
        reason_text::ReasonText,
        traced_event::{RunDetail, RunOutcome, RunReport, TracedEvent, TracedRun},
    },
    rule::{RuleCounts, RuleIdentity, RulePosition, RuleSummary, TracedRule},
    sink::TraceSink,
    store::{
        MAX_PAGE_RECORDS, TraceStore, TracedRules,
        content::{ContentReason, StoredContent},
        denials::{DenialGroup, truncated_rule_name},
        masking::MaskedBody,
        pages::{CallList, CallView, DenialList, ScanRange, TraceStatus},
        subscription::{TraceBatch, TraceSubscription},
        watched::{SessionWatch, is_key_begin},
    },
};
