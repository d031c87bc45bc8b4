//! Where sessions are kept: in memory, or in Redis so that replicas agree.

use super::{Print, State};

/// Keeps the states of sessions, and knows which prints lead to which session.
/// Whoever asks is told what is known at once: a store that is away answers with
/// what this process knows.
pub trait Store: std::fmt::Debug + Send + Sync {
    /// The first of `prints` that leads to a session: its position, and the id.
    fn find<'a>(&'a self, prints: &'a [Print]) -> Asked<'a, Option<(usize, String)>>;

    /// What is remembered of a session.
    fn load<'a>(&'a self, id: &'a SessionKey) -> Asked<'a, Option<State>>;

    /// Merges `state` into what is remembered; `prints` lead there from now on.
    fn save<'a>(&'a self, id: &'a SessionKey, state: State, prints: &'a [Print]) -> Asked<'a, ()>;

    /// Forgets a session.
    fn forget<'a>(&'a self, id: &'a SessionKey) -> Asked<'a, ()>;
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
