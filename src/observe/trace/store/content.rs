//! Content of calls: only where the config or an operator asks for it, masked by all detectors
//! before it is kept, with a memory bound and a retention of its own.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use serde::Serialize;
use serde_json::Value;
use stream_redact::Mask;
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::{
    config::ContentSettings,
    mutex::Mutex,
    observe::{
        redaction::{MaskPatterns, full_mask},
        trace::store::{
            masking::{MaskedBody, mask_text},
            memory::{InFlightBytes, TraceMemory},
            raw_body::{RawAnswer, RawRequest},
        },
    },
    timestamp::{as_time, milliseconds, now_ms},
};

/// Reason for keeping the content of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContentReason {
    /// An operator watches the session.
    Watched,
    /// The call was denied or edited.
    DeniedOrEdited,
    /// The call is part of the sample.
    Sampled,
}

/// Masked content of one call.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoredContent {
    /// Request id of the call.
    pub id: Arc<str>,
    /// Session of the call; empty if unknown.
    pub session: String,
    /// Reason for keeping the content.
    pub because: ContentReason,
    /// Time at which it is removed: RFC 3339 in UTC.
    #[serde(rename = "until", serialize_with = "as_time")]
    #[schema(value_type = String)]
    pub until_ms: u64,
    /// Request of the agent in the form of its API, without envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<MaskedBody>,
    /// Request that went upstream last; absent if it is equal to the kept `request`, or if the call
    /// has no `rounds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_request: Option<MaskedBody>,
    /// Answers of the model: all chunks of all rounds as a list, in the form of the Gemini API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<MaskedBody>,
    /// Answer that the agent received, in the same form; absent if it is the model's, and an empty
    /// list if the agent received an error or nothing in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_answer: Option<MaskedBody>,
    /// Number of chunks before each round.
    #[serde(skip)]
    round_starts: Vec<usize>,
}

/// Content of a call in flight, before it is masked. Bodies share memory with the call.
#[derive(Debug)]
pub(crate) struct RawContent {
    pub(crate) id: Arc<str>,
    pub(crate) session: String,
    pub(crate) because: ContentReason,
    pub(crate) request: Option<RawRequest>,
    /// Request that went upstream, unless it is the kept one of the agent.
    pub(crate) upstream_request: Option<RawRequest>,
    pub(crate) answer: RawAnswer,
    /// Number of chunks of the answer before each round.
    pub(crate) round_starts: Vec<usize>,
    pub(crate) agent_answer: RawAnswer,
    /// Its bytes, which are counted as in flight until it is masked.
    pub(crate) bytes: InFlightBytes,
}

/// Masked content of the last calls that have some.
#[derive(Debug)]
pub(crate) struct ContentStore {
    memory: Arc<TraceMemory>,
    state: Mutex<ContentState>,
    pending: Notify,
}

#[derive(Debug, Default)]
struct ContentState {
    settings: ContentSettings,
    patterns: MaskPatterns,
    /// All detectors and the patterns; compiled when content is masked for the first time.
    mask: Option<Mask>,
    pending: VecDeque<RawContent>,
    stored: VecDeque<(Arc<StoredContent>, usize)>,
    /// Time before which no content has to be removed, in milliseconds since 1970.
    next_expiry: u64,
}

impl Default for ContentStore {
    fn default() -> Self {
        let settings = ContentSettings::default();
        Self {
            memory: Arc::new(TraceMemory::new(settings.memory)),
            state: Mutex::default(),
            pending: Notify::new(),
        }
    }
}

impl ContentStore {
    /// Applies the settings of a config, also to content that is kept. `patterns` are masked like
    /// what detectors find.
    pub(crate) fn configure(&self, settings: &ContentSettings, patterns: &MaskPatterns) {
        self.memory.set_limit(settings.memory);
        let mut state = self.state.lock();
        state.settings = *settings;
        if state.patterns != *patterns {
            state.patterns.clone_from(patterns);
            state.mask = None;
        }
        self.shorten_retention(&mut state);
        while self.memory.used() > settings.memory && self.evict_oldest(&mut state) {}
    }

    pub(crate) fn bytes(&self) -> usize {
        self.memory.used()
    }

    pub(crate) fn in_flight(&self) -> InFlightBytes {
        InFlightBytes::none(Arc::clone(&self.memory))
    }

    /// Adds bytes to those of a call in flight; `false` if they do not fit.
    pub(crate) fn grow(&self, bytes: &mut InFlightBytes, more: usize) -> bool {
        bytes.grow(more, &|| self.evict_oldest(&mut self.state.lock()))
    }

    /// Queues content, which is masked by [`ContentStore::mask_pending`] before it is kept.
    pub(crate) fn push(&self, content: RawContent) {
        self.state.lock().pending.push_back(content);
        self.pending.notify_one();
    }

    /// Waits until content is queued.
    pub(crate) async fn pending(&self) {
        self.pending.notified().await;
    }

    /// Masks and keeps what is queued, and removes content whose retention is over. Returns the
    /// number of contents that do not fit.
    pub(crate) fn maintain(&self) -> usize {
        let dropped = self.mask_pending();
        self.remove_expired(&mut self.state.lock());
        dropped
    }

    /// Masks and keeps what is queued. Takes milliseconds for each megabyte. Returns the number of
    /// contents that do not fit.
    pub(crate) fn mask_pending(&self) -> usize {
        let mut dropped = 0;
        loop {
            let (raw, settings) = {
                let mut state = self.state.lock();
                let Some(raw) = state.pending.pop_front() else {
                    return dropped;
                };
                (raw, state.settings)
            };
            let mask = self.mask();
            let until = milliseconds(SystemTime::now() + settings.retention);
            let content = StoredContent::new(&raw, mask.as_ref(), until);
            drop(raw.bytes);
            dropped += usize::from(!self.keep(content));
        }
    }

    /// Returns a text with its secrets replaced.
    pub(crate) fn masked_text(&self, text: &str) -> String {
        mask_text(self.mask().as_ref(), text)
    }

    /// Returns the content of a call, if it is kept. Removes what is too old.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<StoredContent>> {
        let mut state = self.state.lock();
        self.remove_expired(&mut state);
        let mut stored = state.stored.iter().rev();
        let found = stored.find(|(content, _)| *content.id == *id);
        found.map(|(content, _)| Arc::clone(content))
    }

    /// Keeps content. Returns `false` if it does not fit, even without other content.
    fn keep(&self, content: StoredContent) -> bool {
        let bytes = content.bytes();
        while !self.memory.try_add(bytes) {
            let fits = bytes + self.memory.in_flight() <= self.memory.limit();
            if !fits || !self.evict_oldest(&mut self.state.lock()) {
                return false;
            }
        }
        let mut state = self.state.lock();
        if !content.because.applies(&state.settings) {
            // A reload has switched its reason off since the call began.
            self.memory.release(bytes);
            return true;
        }
        state.next_expiry = state.next_expiry.min(content.until_ms);
        state.stored.push_back((Arc::new(content), bytes));
        self.remove_expired(&mut state);
        true
    }

    /// Removes content that the settings do not keep any more, and sets the end of the other to
    /// that of new content if it is later.
    fn shorten_retention(&self, state: &mut ContentState) {
        let settings = state.settings;
        let latest = milliseconds(SystemTime::now() + settings.retention);
        state.stored.retain_mut(|(content, bytes)| {
            if content.until_ms > latest {
                Arc::make_mut(content).until_ms = latest;
            }
            let is_kept = content.because.applies(&settings);
            if !is_kept {
                self.memory.release(*bytes);
            }
            is_kept
        });
        state.next_expiry = state.next_expiry.min(latest);
    }

    fn remove_expired(&self, state: &mut ContentState) {
        let now = now_ms();
        if now < state.next_expiry {
            return;
        }
        // A reload may give later content an earlier end.
        state.stored.retain(|(content, bytes)| {
            let is_kept = content.until_ms > now;
            if !is_kept {
                self.memory.release(*bytes);
            }
            is_kept
        });
        let ends = state.stored.iter().map(|(content, _)| content.until_ms);
        state.next_expiry = ends.min().unwrap_or(u64::MAX);
    }

    fn evict_oldest(&self, state: &mut ContentState) -> bool {
        let evicted = state.stored.pop_front();
        if let Some((_, bytes)) = &evicted {
            self.memory.release(*bytes);
        }
        evicted.is_some()
    }

    /// Returns the compiled detectors. `None` cannot happen: they compile in every test.
    fn mask(&self) -> Option<Mask> {
        let mut state = self.state.lock();
        if state.mask.is_none() {
            state.mask = full_mask(&state.patterns).ok();
        }
        state.mask.clone()
    }
}

impl ContentReason {
    /// Returns whether content is kept for this reason. A watch does not depend on settings.
    fn applies(self, settings: &ContentSettings) -> bool {
        match self {
            Self::Watched => true,
            Self::DeniedOrEdited => settings.denied_or_edited,
            Self::Sampled => settings.sample > 0.0,
        }
    }
}

impl StoredContent {
    /// Returns the chunks of the model's answer in each round that has some; none if they are not
    /// kept.
    pub fn answers(&self) -> Vec<Vec<Value>> {
        let body = self.answer.as_ref().and_then(MaskedBody::value);
        let Some(Value::Array(mut chunks)) = body else {
            return Vec::new();
        };
        let mut rounds = VecDeque::new();
        for start in self.round_starts.iter().rev() {
            rounds.push_front(chunks.split_off(chunks.len().min(*start)));
        }
        rounds.push_front(chunks);
        rounds.retain(|round| !round.is_empty());
        rounds.into()
    }

    fn new(raw: &RawContent, mask: Option<&Mask>, until_ms: u64) -> Self {
        let mask_one = |request: &RawRequest| request.masked(mask);
        let is_edited = raw.agent_answer.differs_from(&raw.answer);
        Self {
            id: Arc::clone(&raw.id),
            session: raw.session.clone(),
            because: raw.because,
            until_ms,
            request: raw.request.as_ref().map(mask_one),
            upstream_request: raw.upstream_request.as_ref().map(mask_one),
            answer: (raw.answer.bytes > 0).then(|| raw.answer.masked(mask)),
            agent_answer: is_edited.then(|| raw.agent_answer.masked(mask)),
            round_starts: raw.round_starts.clone(),
        }
    }

    fn bytes(&self) -> usize {
        let bodies = [
            &self.request,
            &self.upstream_request,
            &self.answer,
            &self.agent_answer,
        ];
        let bodies = bodies.into_iter().flatten().map(MaskedBody::heap_bytes);
        size_of::<Self>()
            + self.session.capacity()
            + self.round_starts.capacity() * size_of::<usize>()
            + bodies.sum::<usize>()
    }
}
