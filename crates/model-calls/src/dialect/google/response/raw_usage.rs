//! Token counts as the model API sent them.

use bytes::Bytes;
use serde_json::Value;

/// Token counts of a response, as JSON. Many chunks have them, and few are read.
#[derive(Debug, Clone, Default)]
pub struct RawUsage(Bytes);

impl RawUsage {
    pub(super) const fn new(json: Bytes) -> Self {
        Self(json)
    }

    /// The counts as JSON; empty if there are none.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn to_bytes(&self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| self.0.clone())
    }

    /// Parses the counts; `null` if there are none.
    pub fn read(&self) -> Value {
        // Part of a document that was checked, so parsing fails for empty bytes only.
        serde_json::from_slice(&self.0).unwrap_or_default()
    }
}
