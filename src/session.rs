//! Sessions of agents, and what hooks have decided about their conversations.
//!
//! Agents send the whole history with every request. A session is identified by its
//! name or by that history; its state holds the decisions of hooks about items of the
//! history. Therefore a request alone decides which decisions apply, and hooks
//! evaluate items without a stored decision again.
//!
//! Reading order: `state` (stored decisions), `conversation` (a history as items),
//! `lookup` and `prefix_match` (finding the session), `checkout` (one request's copy),
//! `store` (memory and Redis), `transcript` (files for hooks).

mod checkout;
mod conversation;
mod conversation_cache;
mod fingerprint;
mod fingerprint_chain;
mod in_flight;
mod lookup;
mod prefix_match;
mod response_fingerprint;
mod session_key;
mod session_request;
mod state;
mod store;
mod transcript;

pub use self::{
    checkout::Session,
    conversation::{Conversation, Item, Prompt},
    conversation_cache::ConversationCache,
    fingerprint::{Fingerprint, FingerprintBuildHasher, FingerprintHasher, Fingerprinter},
    lookup::Sessions,
    response_fingerprint::{ResponseFingerprinter, ResponseSummary},
    session_key::SessionKey,
    session_request::{CallRole, MatchKind, RecordedMatch, SessionRequest, is_helper_call},
    state::{ItemNote, MAX_HOOK_TEXT_BYTES, MAX_KNOWN_ITEMS, SessionSource, SessionState},
    store::{MemoryStore, RedisStore, SessionStore},
    transcript::{TranscriptRequest, TranscriptResponse, Transcripts},
};
