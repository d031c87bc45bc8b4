//! Where sessions are kept: in memory, or in Redis so that replicas agree.

use super::{Fingerprinter, Print, State};

/// Keeps the states of sessions, and knows which prints lead to which session.
/// Whoever asks is told what is known at once: a store that is away answers with
/// what this process knows.
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Makes the prints of all that is kept here. A store that is shared has one
    /// secret for all, and a gateway that has not reached it yet one of its own:
    /// so take one for each request, and keep it to the request's end.
    fn printer(&self) -> Asked<'_, Fingerprinter>;

    /// The first of `prints` that leads to a session: its position, and the id.
    fn find<'a>(&'a self, prints: &'a [Print]) -> Asked<'a, Option<(usize, String)>>;

    /// What is remembered of a session.
    fn load<'a>(&'a self, key: &'a SessionKey) -> Asked<'a, Option<State>>;

    /// Merges `state` into what is remembered; `prints` lead there from now on.
    /// The session was heard of now.
    fn save<'a>(&'a self, key: &'a SessionKey, state: State, prints: &'a [Print]) -> Asked<'a, ()>;

    /// Forgets a session, and says what was remembered of it.
    fn forget<'a>(&'a self, key: &'a SessionKey) -> Asked<'a, Option<State>>;

    /// The sessions that were heard of last, newest first, at most `limit`.
    fn newest(&self, limit: usize) -> Asked<'_, Vec<(SessionKey, State)>>;

    /// The sessions that are called `id`, of whichever caller.
    fn called<'a>(&'a self, id: &'a str) -> Asked<'a, Vec<(SessionKey, State)>>;

    /// Does what is to be done now and then, about each second: sessions of which
    /// nothing was heard for too long, and those that are too many, end. Each that
    /// ended since the last time is told here, once, to one of all gateways.
    fn tend(&self) -> Asked<'_, Vec<(SessionKey, State)>>;

    /// How many sessions this process remembers.
    fn count(&self) -> usize;
}

/// What a store comes to.
pub type Asked<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A session of one caller. Callers never share sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// SHA-256 of the caller's credential; empty without one.
    pub caller: String,
    /// The id that hooks are told.
    pub id: String,
}
