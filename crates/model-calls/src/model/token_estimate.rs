//! Estimate of the tokens of a call whose response reports none.

/// Number of bytes that are estimated as one token.
const BYTES_PER_TOKEN: u64 = 4;

/// Size of a request and of its response so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallSize {
    /// Size of the request.
    pub request_bytes: u64,
    /// Size of the response so far.
    pub response_bytes: u64,
    /// Number of its server-sent events, which hold about one token each.
    pub events: u64,
}

impl CallSize {
    /// Returns the estimated number of tokens.
    pub fn estimated_tokens(self) -> u64 {
        match self.events {
            0 => tokens_of(self.request_bytes.saturating_add(self.response_bytes)),
            events => tokens_of(self.request_bytes).saturating_add(events),
        }
    }
}

/// Returns the estimated number of tokens of a text of this size.
pub const fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}
