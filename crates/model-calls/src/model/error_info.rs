//! An error response independent of the API, rendered by dialects.

/// Error response for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorInfo {
    /// HTTP status code of the response.
    pub code: u16,
    /// Canonical status, such as `INVALID_ARGUMENT`.
    pub status: &'static str,
    /// Error reason, such as `BAD_JSON`; listed in `docs/errors.md`.
    pub reason: &'static str,
    /// Human-readable message without hosts, paths or keys.
    pub message: String,
    /// Request id for log correlation; empty if there is none.
    pub request_id: String,
    /// Retry delay in seconds to put into the body.
    pub retry_after: Option<u64>,
}
