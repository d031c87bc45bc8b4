//! What is remembered of agents' sessions.
//!
//! Agents send their whole history again with every call. A session is known by
//! its name, else by that history; and what is remembered of it is a memo of what
//! hooks said of the history's items. So a request alone decides what of the memo
//! applies, and what is forgotten hooks are asked about again.
//! Read in this order: `state` (the memo), `conversation` (a history as items),
//! `recognise` (which session it is), `visit` (one request's copy of it), `store`
//! (where sessions are kept).

mod checkout;
mod conversation;
mod conversation_cache;
mod fingerprint;
mod in_flight;
mod lookup;
mod response_fingerprint;
mod session_key;
mod state;
mod store;
mod transcript;
mod yield_budget;

pub use self::{
    checkout::{CallRole, MatchKind, Session, SessionRequest},
    conversation::{Conversation, Item, Prompt},
    conversation_cache::ConversationCache,
    fingerprint::{Fingerprint, FingerprintBuildHasher, FingerprintHasher, Fingerprinter},
    lookup::Sessions,
    response_fingerprint::{ResponseFingerprinter, ResponseSummary},
    session_key::SessionKey,
    state::{ItemNote, MAX_HOOK_TEXT_BYTES, MAX_KNOWN_ITEMS, SessionSource, SessionState},
    store::{MemoryStore, RedisStore, SessionStore, StoreError, StoreFuture},
    transcript::{TranscriptRequest, TranscriptResponse, Transcripts},
    yield_budget::YieldBudget,
};
