//! A transcript could not be written.

use std::io;

/// A file of it could not be made, written or removed.
#[derive(Debug)]
pub struct TranscriptFailed<'a> {
    /// What the system said.
    pub cause: &'a io::Error,
}

impl TranscriptFailed<'_> {
    /// Logs it.
    pub fn emit(&self) {
        tracing::warn!(cause = %self.cause, "transcript failed");
    }
}
