//! The live trace: a bounded record of each exchange, for the admin API, the console and
//! `hookgate explain`.
//!
//! [`TraceSink`] receives the events of one exchange and makes its [`CallRecord`]: how the session
//! was found, each event with every policy and hook, what was edited and how long it took.
//! [`TraceStore`] keeps the last records within a memory bound, statistics of rules, and
//! denials. Records hold names, verdicts, sizes, digests and times. Content is kept apart, masked,
//! and only where the config or an operator asks for it.

mod cache_effect;
mod chunk_strip;
mod clock;
mod content;
mod denials;
mod document_diff;
mod filter;
mod histogram;
mod limits;
mod masking;
mod memory;
mod output_fields;
mod reason_text;
mod record;
mod ring;
mod rule;
mod store;
mod subscription;
mod traced_event;
mod watched;

pub use self::{
    cache_effect::{CacheEffect, PromptParts},
    chunk_strip::{ChunkSpan, ChunkStrip},
    content::{ContentReason, StoredContent},
    denials::DenialGroup,
    document_diff::{ChangeKind, DocumentDiff, ValueChange},
    filter::{FILTER_KEYS, FilterError, TraceFilter},
    limits::{ContentLimits, TraceLimits},
    masking::MaskedBody,
    output_fields::OutputFields,
    reason_text::ReasonText,
    record::{
        CallDetail, CallRecord, RecordKind, SessionMatch, TimeSplit, TracedRound, TracedTokens,
    },
    rule::{RuleIdentity, RulePosition, RuleSummary, TracedRule},
    store::{
        CallPage, CallView, DenialList, MAX_PAGE_RECORDS, ScanRange, TraceStatus, TraceStore,
        TracedRules,
    },
    subscription::{TraceBatch, TraceSubscription},
    traced_event::{RunDetail, RunOutcome, TracedEvent, TracedRun},
    watched::SessionWatch,
};
