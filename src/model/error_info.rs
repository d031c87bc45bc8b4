//! An error in plain words, for dialects to spell.

/// What an agent is told when a call fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub code: u16,
    /// The canonical code, such as `INVALID_ARGUMENT`.
    pub status: &'static str,
    /// The error reason, such as `BAD_JSON`; `docs/errors.md` lists them.
    pub reason: &'static str,
    /// For people. No host, path or key.
    pub message: String,
    /// The id under which the log knows this request; empty if there is none.
    pub request_id: String,
    /// After how many seconds to ask again, if that is told in the body.
    pub retry_after: Option<u64>,
}
