//! What is remembered of agents' sessions.
//!
//! Agents send their whole history again with every call. A session is known by
//! its name, else by that history; and what is remembered of it is a memo of what
//! hooks said of the history's items. So a request alone decides what of the memo
//! applies, and what is forgotten hooks are asked about again.
//! Read in this order: `state` (the memo), `conversation` (a history as items),
//! `recognise` (which session it is), `visit` (one request's copy of it), `store`
//! (where sessions are kept).

mod conversation;
mod emission;
mod memory;
mod print;
mod reader;
mod recognise;
mod redis;
mod state;
mod store;
mod transcript;
mod turns;
mod under_way;
mod visit;

pub use self::{
    conversation::{Conversation, Item, Prompt},
    emission::{Emission, Said},
    memory::MemoryStore,
    print::{ByPrint, Print, PrintHasher, Printer},
    reader::Reader,
    recognise::Sessions,
    redis::{RedisStore, StoreError},
    state::{MOST_KNOWN, MOST_TEXT, Note, Source, State},
    store::{Asked, SessionKey, Store},
    transcript::{Answered, Told, Transcripts},
    turns::Turns,
    visit::{Arrival, CallRole, Session, Visit},
};
