//! Identity of a session.

/// Caller and id of a session. Sessions are never shared between callers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// SHA-256 of the caller's credential; empty without one.
    pub caller: String,
    /// The id that hooks receive.
    pub id: String,
}

impl SessionKey {
    /// Returns the key of session `id` of `caller`.
    pub fn new(caller: &str, id: impl Into<String>) -> Self {
        Self {
            caller: caller.to_owned(),
            id: id.into(),
        }
    }
}
