//! Interface of session stores.

use std::{fmt, pin::Pin};

use crate::session::{
    fingerprint::{Fingerprint, Fingerprinter},
    session_key::SessionKey,
    state::SessionState,
};

/// Future returned by a [`SessionStore`].
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Storage of session states, with an index from fingerprints to sessions.
///
/// No method fails: a store whose backend is unavailable answers from the memory
/// of this process.
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Returns the fingerprinter of all sessions in this store. A shared store has
    /// one secret for all gateways, and a gateway that has not reached it yet uses
    /// its own: take one per request and keep it until the request ends.
    fn fingerprinter(&self) -> StoreFuture<'_, Fingerprinter>;

    /// Returns the position of the first fingerprint that is indexed, and the id of
    /// its session.
    fn find<'a>(
        &'a self,
        fingerprints: &'a [Fingerprint],
    ) -> StoreFuture<'a, Option<(usize, String)>>;

    /// Returns the state of a session.
    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<SessionState>>;

    /// Merges `state` into the stored state, points `fingerprints` to the session
    /// and marks it as used now.
    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        state: SessionState,
        fingerprints: &'a [Fingerprint],
    ) -> StoreFuture<'a, ()>;

    /// Removes a session and returns its last state.
    fn remove<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Option<SessionState>>;

    /// Returns the most recently used sessions, newest first, at most `limit`.
    fn newest(&self, limit: usize) -> StoreFuture<'_, Vec<(SessionKey, SessionState)>>;

    /// Returns the sessions with this id, of all callers.
    fn find_by_id<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Vec<(SessionKey, SessionState)>>;

    /// Removes idle and surplus sessions and returns those that ended since the last
    /// call. Each ended session is returned once, to one gateway. Called about once
    /// a second.
    fn expire(&self) -> StoreFuture<'_, Vec<(SessionKey, SessionState)>>;

    /// Returns the number of sessions in the memory of this process.
    fn count(&self) -> usize;
}
