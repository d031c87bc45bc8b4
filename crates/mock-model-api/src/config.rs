//! Behaviour of the mock, as its user sets it.

use std::time::Duration;

use super::script::Script;

/// Behaviour of the mock.
#[derive(Debug)]
pub struct MockConfig {
    /// Responses to give in order. Without it, responses are derived from requests.
    pub script: Option<Script>,
    /// Number of chunks of a streamed text; fewer if it has fewer characters.
    pub chunks: usize,
    /// Pause before each chunk.
    pub interval: Duration,
    /// If set, every chunk carries a filler text of this many bytes.
    pub chunk_bytes: Option<usize>,
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            script: None,
            chunks: 3,
            interval: Duration::ZERO,
            chunk_bytes: None,
        }
    }
}
