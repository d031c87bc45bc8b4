//! Reasons of decisions. Hooks write them, perhaps about content, so by default only a digest
//! is kept.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{observe::truncated, sha256::sha256_hex};

/// Bytes of a reason that are kept.
const MAX_REASON_BYTES: usize = 512;

/// Hexadecimal digits of a digest that are kept.
const DIGEST_CHARS: usize = 16;

/// A reason, or what is kept of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
pub struct ReasonText {
    /// First digits of the SHA-256 of the whole text.
    pub sha256: Box<str>,
    /// Length of the whole text in bytes.
    pub bytes: u64,
    /// Text of the reason, truncated; absent unless it comes from the config or from hookgate
    /// itself, or the trace keeps reasons and the user is an investigator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<str>>,
    /// True if the text may be about content.
    #[serde(skip)]
    is_content: bool,
}

impl ReasonText {
    /// Keeps the digest of a reason.
    pub(crate) fn digest(reason: &str) -> Self {
        let mut sha256 = sha256_hex(reason);
        sha256.truncate(DIGEST_CHARS);
        Self {
            sha256: sha256.into(),
            bytes: reason.len() as u64,
            text: None,
            is_content: false,
        }
    }

    /// Keeps the digest of a reason that is no content, and its text.
    pub(crate) fn with_text(reason: &str) -> Self {
        Self {
            text: Some(truncated(reason, MAX_REASON_BYTES).into()),
            ..Self::digest(reason)
        }
    }

    /// Keeps the digest of a reason that may be about content, and its masked form.
    pub(crate) fn with_content(reason: &str, masked: &str) -> Self {
        Self {
            text: Some(truncated(masked, MAX_REASON_BYTES).into()),
            is_content: true,
            ..Self::digest(reason)
        }
    }

    /// Removes a text that may be about content.
    pub(crate) fn remove_content(&mut self) {
        if self.is_content {
            self.text = None;
        }
    }

    /// Returns the text, or a placeholder with its digest.
    pub fn display(&self) -> String {
        match &self.text {
            Some(text) => text.to_string(),
            None => format!("sha256:{} ({} bytes)", self.sha256, self.bytes),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.sha256.len() + self.text.as_ref().map_or(0, |text| text.len())
    }
}
