//! Storage of sessions: in memory, or in Redis to share them between gateways.

mod memory;
mod redis;

use std::sync::Arc;

pub use self::{memory::MemoryStore, redis::RedisStore};
use super::{
    fingerprint::{Fingerprint, Fingerprinter},
    session_key::SessionKey,
    state::SessionState,
};

/// Storage of session states, with an index from fingerprints to sessions.
///
/// No method fails: while Redis is unavailable, the memory of this process answers. The
/// futures of Redis are boxed, because they are large, and are moved with every request.
#[derive(Debug)]
pub enum SessionStore {
    /// In the memory of this process.
    Memory(Box<MemoryStore>),
    /// In Redis, shared by several gateways.
    Redis(Box<RedisStore>),
}

impl SessionStore {
    /// Returns the fingerprinter of all sessions in this store. A shared store has
    /// one secret for all gateways, and a gateway that has not reached it yet uses
    /// its own: take one per request and keep it until the request ends.
    pub async fn fingerprinter(&self) -> Fingerprinter {
        match self {
            Self::Memory(store) => store.fingerprinter(),
            Self::Redis(store) => Box::pin(store.fingerprinter()).await,
        }
    }

    /// Returns the position of the first fingerprint that is indexed, and the id of
    /// its session.
    pub async fn find(&self, fingerprints: &[Fingerprint]) -> Option<(usize, String)> {
        match self {
            Self::Memory(store) => store.find(fingerprints),
            Self::Redis(store) => Box::pin(store.find(fingerprints)).await,
        }
    }

    /// Returns the state of a session.
    pub async fn load(&self, key: &SessionKey) -> Option<SessionState> {
        match self {
            Self::Memory(store) => store.load(key),
            Self::Redis(store) => Box::pin(store.load(key)).await,
        }
    }

    /// Merges `state` into the stored state, points `fingerprints` to the session
    /// and marks it as used now.
    pub async fn save(&self, key: &SessionKey, state: SessionState, fingerprints: &[Fingerprint]) {
        match self {
            Self::Memory(store) => drop(store.save(key, state, fingerprints)),
            Self::Redis(store) => Box::pin(store.save(key, state, fingerprints)).await,
        }
    }

    /// Merges `state` like [`Self::save`], unless the session has ended.
    pub async fn update(
        &self,
        key: &SessionKey,
        state: SessionState,
        fingerprints: &[Fingerprint],
    ) {
        match self {
            Self::Memory(store) => store.update(key, state, fingerprints),
            Self::Redis(store) => Box::pin(store.update(key, state, fingerprints)).await,
        }
    }

    /// Removes a session and returns its last state.
    pub async fn remove(&self, key: &SessionKey) -> Option<SessionState> {
        match self {
            Self::Memory(store) => store.remove(key),
            Self::Redis(store) => Box::pin(store.remove(key)).await,
        }
    }

    /// Returns the most recently used sessions, newest first, at most `limit`.
    pub async fn newest(&self, limit: usize) -> Vec<(SessionKey, SessionState)> {
        match self {
            Self::Memory(store) => store.newest(limit),
            Self::Redis(store) => Box::pin(store.newest(limit)).await,
        }
    }

    /// Returns the sessions with this id, of all callers.
    pub async fn find_by_id(&self, id: &str) -> Vec<(SessionKey, SessionState)> {
        match self {
            Self::Memory(store) => store.find_by_id(id),
            Self::Redis(store) => Box::pin(store.find_by_id(id)).await,
        }
    }

    /// Marks sessions as used now, if they have not ended.
    pub async fn touch(&self, keys: &[Arc<SessionKey>]) {
        match self {
            Self::Memory(store) => store.touch(keys),
            Self::Redis(store) => Box::pin(store.touch(keys)).await,
        }
    }

    /// Removes idle and surplus sessions and returns those that ended since the last
    /// call, with what [`SessionState::ended`] keeps of them. Each ended session is
    /// returned once, to one gateway. Called about once a second.
    pub async fn expire(&self) -> Vec<(SessionKey, SessionState)> {
        match self {
            Self::Memory(store) => store.expire(),
            Self::Redis(store) => Box::pin(store.expire()).await,
        }
    }

    /// Returns the number of sessions in the memory of this process.
    pub fn count(&self) -> usize {
        match self {
            Self::Memory(store) => store.count(),
            Self::Redis(store) => store.count(),
        }
    }
}
