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
mod memory;
mod redis;
mod response_fingerprint;
mod state;
mod store;
mod transcript;
mod yield_budget;

pub use self::{
    checkout::{Arrival, CallRole, Session, SessionRequest},
    conversation::{Conversation, Item, Prompt},
    conversation_cache::Reader,
    fingerprint::{ByPrint, Fingerprinter, Print, PrintHasher},
    lookup::Sessions,
    memory::MemoryStore,
    redis::{RedisStore, StoreError},
    response_fingerprint::{ResponseFingerprinter, Said},
    state::{MOST_KNOWN, MOST_TEXT, Note, Source, State},
    store::{Asked, SessionKey, Store},
    transcript::{Answered, Told, Transcripts},
    yield_budget::YieldBudget,
};
