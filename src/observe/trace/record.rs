//! The record of one exchange: names, verdicts, sizes, digests and times, and of content at most
//! the reasons that hooks give.

pub mod cache_effect;
pub mod call_summary;
pub mod chunk_strip;
pub mod document_diff;
pub mod output_fields;
pub mod reason_text;
pub mod traced_event;

use std::{ops::Deref, sync::Arc, time::Duration};

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    event::EventName,
    observe::{
        TokenUsage,
        recorder::{ExchangeAction, ExchangeEnd},
        trace::record::{
            cache_effect::CacheEffect, chunk_strip::ChunkStrip, document_diff::DocumentDiff,
            traced_event::TracedEvent,
        },
    },
    timestamp::{as_time, rfc3339_ms},
};

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// A model call of an agent.
    Call,
    /// An event that an agent reported, or the end of a session.
    Event,
}

/// The record of one exchange.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CallRecord {
    /// Facts of an exchange, in its record and in lists.
    #[serde(flatten)]
    pub head: CallHead,
    /// Address of upstream that was called last: `primary` or `fallback`; empty if none was.
    pub upstream: &'static str,
    /// Token counts of the model API, summed over all rounds; absent if it reported none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TracedTokens>,
    /// Steps of a call that policies or hooks inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<CallDetail>>,
}

/// Facts of an exchange, in its record and in lists.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CallHead {
    /// Position in the trace, which grows by one for each record. It begins at the time of the
    /// start in microseconds.
    pub seq: u64,
    /// Request id, as in `x-hookgate-request-id`.
    pub id: Arc<str>,
    /// Kind of the record: `call` or `event`.
    pub kind: RecordKind,
    /// Time of the request's head: RFC 3339 in UTC.
    #[serde(rename = "time", serialize_with = "as_time")]
    #[schema(value_type = String)]
    pub started_ms: u64,
    /// Time to the end of the response, in microseconds.
    pub duration_us: u64,
    /// Name of the caller; empty without authentication.
    pub caller: Arc<str>,
    /// First digits of the caller's key; empty without a credential, and for calls that no policy,
    /// hook or decision log reads.
    pub caller_key: Arc<str>,
    /// `User-Agent` of the request.
    pub agent: Arc<str>,
    /// Session of the request; empty if unknown.
    pub session: Arc<str>,
    /// Name of the model API; empty for events and unknown paths.
    pub dialect: &'static str,
    /// Name of the method, such as `generateContent`, or of the event.
    pub method: &'static str,
    /// Model that the agent requested.
    pub requested_model: Arc<str>,
    /// Model that was called last.
    pub model: Arc<str>,
    /// HTTP status of the response; 0 for events, and if the agent disconnected before it.
    pub status: u16,
    /// Strictest action of policies and hooks, as in `x-hookgate-action`.
    #[schema(value_type = String)]
    pub action: ExchangeAction,
    /// Reason code of an error of hookgate's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// End of the response body; `complete` for an event that was decided.
    #[schema(value_type = String)]
    pub end: ExchangeEnd,
    /// Number of requests to the model API.
    pub rounds: u32,
}

/// Steps of one exchange.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CallDetail {
    /// Result of the session lookup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_match: Option<SessionMatch>,
    /// Name of the sub-agent that made the call, with which the call can be performed again.
    #[serde(skip)]
    pub sub_agent: Option<Box<str>>,
    /// Events in order, each with all of its policies and hooks.
    pub events: Vec<TracedEvent>,
    /// Requests to the model API, in order.
    pub upstream_rounds: Vec<TracedRound>,
    /// Differences between the agent's request and the last one that went upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_diff: Option<DocumentDiff>,
    /// Differences between the model's answers and what the agent received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_diff: Option<DocumentDiff>,
    /// Chunks of a streamed response.
    #[serde(skip_serializing_if = "ChunkStrip::is_empty")]
    pub chunks: ChunkStrip,
    /// Tools whose calls were removed from an answer, each once and at most 16 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<Box<str>>,
    /// Tools whose calls a rule in mode `observe` would have removed, each once and at most 16 of
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_deny_tools: Vec<Box<str>>,
    /// Shares of the duration.
    pub times: TimeSplit,
    /// Effect of edits on the prompt cache of the model API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<CacheEffect>,
    /// Details that were not kept, because the record or the trace is full.
    pub dropped_details: u32,
}

/// Result of the session lookup for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionMatch {
    /// Relation of the request to the session, such as `new` or `continued`.
    pub result: &'static str,
    /// Method of session identification, such as `history` or `header`.
    pub source: &'static str,
}

/// One request to the model API. Times are microseconds since the exchange's begin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TracedRound {
    /// Time at which the request was sent.
    pub sent_us: u32,
    /// Time at which the head of the response arrived; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_us: Option<u32>,
    /// Time at which the response was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_us: Option<u32>,
    /// Address of upstream: `primary` or `fallback`.
    pub upstream: &'static str,
    /// HTTP status of the model API; absent if it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the request body; absent if it was streamed unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<u64>,
    /// Reason for another request to the model: `tool_denied` or `answer_denied`; absent for the
    /// first round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_again: Option<&'static str>,
}

/// Token counts of the model API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TracedTokens {
    /// Tokens of the requests.
    pub prompt: u64,
    /// Tokens of the requests that the model API took from its cache.
    pub cached: u64,
    /// Tokens of the answers.
    pub candidates: u64,
    /// All tokens, thoughts and tool use included.
    pub total: u64,
}

/// Shares of an exchange's duration, in microseconds. They may overlap: hooks run while a
/// stream is read, and held-back bytes wait meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TimeSplit {
    /// Time in which requests to the model API were open, without the runs of hooks meanwhile.
    pub upstream_us: u64,
    /// Time in which policies and hooks ran.
    pub hooks_us: u64,
    /// Time in which bytes of the answer were held back.
    pub held_back_us: u64,
    /// Time to the head of the response for the agent; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
}

impl From<TokenUsage> for TracedTokens {
    fn from(usage: TokenUsage) -> Self {
        Self {
            prompt: usage.prompt.unwrap_or_default(),
            cached: usage.cached.unwrap_or_default(),
            candidates: usage.candidates.unwrap_or_default(),
            total: usage.total.unwrap_or_default(),
        }
    }
}

impl Deref for CallRecord {
    type Target = CallHead;

    fn deref(&self) -> &CallHead {
        &self.head
    }
}

impl CallRecord {
    /// Returns the size in memory, with everything that it owns.
    pub fn bytes(&self) -> usize {
        let names = [
            &self.caller,
            &self.caller_key,
            &self.agent,
            &self.session,
            &self.requested_model,
            &self.model,
        ];
        // An `Arc` has two counters before its content.
        let shared = 2 * size_of::<usize>();
        let owned = names.into_iter().map(|name| name.len()).sum::<usize>();
        let detail = self.detail.as_ref().map_or(0, |detail| detail.bytes());
        size_of::<Self>() + shared + self.id.len() + shared + owned + detail
    }

    /// Returns the record without the texts of reasons that may be about content.
    #[must_use]
    pub fn without_content(&self) -> Self {
        let mut record = self.clone();
        let details = record.detail.iter_mut();
        for event in details.flat_map(|detail| &mut detail.events) {
            event.remove_content();
        }
        record
    }

    /// Returns the duration of the exchange.
    pub fn duration(&self) -> Duration {
        Duration::from_micros(self.duration_us)
    }

    /// Returns the time of the end: milliseconds since 1970.
    pub(crate) const fn ended_ms(&self) -> u64 {
        self.head
            .started_ms
            .saturating_add(self.head.duration_us / 1000)
    }

    /// Returns the time of the request's head: RFC 3339 in UTC.
    pub fn time(&self) -> String {
        rfc3339_ms(self.started_ms)
    }

    /// Returns whether the response has the status of a success.
    pub const fn is_successful(&self) -> bool {
        matches!(self.head.status, 200..300)
    }

    /// Returns the events; none for calls that nothing inspected.
    pub fn events(&self) -> &[TracedEvent] {
        self.detail.as_ref().map_or(&[], |detail| &detail.events)
    }

    /// Returns whether no detail was dropped.
    pub fn has_all_details(&self) -> bool {
        let detail = self.detail.as_ref();
        detail.is_none_or(|detail| detail.dropped_details == 0)
    }

    /// Returns whether a decision of an earlier call in the session was applied again: no policy
    /// and no hook of this call acted.
    pub fn repeats_decision(&self) -> bool {
        let is_decided = matches!(
            self.action,
            ExchangeAction::Edit | ExchangeAction::Deny | ExchangeAction::Stop
        );
        self.kind == RecordKind::Call
            && is_decided
            && self.has_all_details()
            && !self.events().iter().any(TracedEvent::has_acted)
    }

    /// Returns whether the request went upstream other than the agent sent it.
    pub fn has_edited_request(&self) -> bool {
        let diff = self.detail.as_ref().map(|detail| &detail.request_diff);
        diff.is_some_and(Option::is_some)
    }

    /// Returns whether a reported event was edited, such as by a mask of a tool's result.
    pub fn has_edited_event(&self) -> bool {
        self.kind == RecordKind::Event && self.action == ExchangeAction::Edit
    }

    /// Returns whether the agent received another answer than the model's. The same text in
    /// other chunks is no edit.
    pub fn has_edited_answer(&self) -> bool {
        let changes_answer = |event: &TracedEvent| {
            matches!(
                event.event,
                EventName::AfterModel | EventName::BeforeTool | EventName::AfterAgent
            ) && event.has_acted()
        };
        self.detail.as_ref().is_some_and(|detail| {
            detail.answer_diff.is_some()
                && (detail.dropped_details > 0 || detail.events.iter().any(changes_answer))
        })
    }
}

impl CallDetail {
    /// Returns details that are dropped as a whole.
    pub(crate) fn dropped(detail: &Self) -> Self {
        Self {
            dropped_details: detail.dropped_details.saturating_add(1),
            ..Self::default()
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let events = self
            .events
            .iter()
            .map(TracedEvent::heap_bytes)
            .sum::<usize>();
        size_of::<Self>()
            + self.sub_agent.as_ref().map_or(0, |name| name.len())
            + self.events.capacity() * size_of::<TracedEvent>()
            + events
            + self.upstream_rounds.capacity() * size_of::<TracedRound>()
            + self
                .request_diff
                .as_ref()
                .map_or(0, DocumentDiff::heap_bytes)
            + self
                .answer_diff
                .as_ref()
                .map_or(0, DocumentDiff::heap_bytes)
            + self.chunks.heap_bytes()
            + tools_bytes(&self.denied_tools)
            + tools_bytes(&self.would_deny_tools)
    }
}

fn tools_bytes(tools: &Vec<Box<str>>) -> usize {
    let names: usize = tools.iter().map(|tool| tool.len()).sum();
    tools.capacity() * size_of::<Box<str>>() + names
}
