//! Digests of bodies, computed as they stream by, with their content if the log stores
//! content.

use std::fmt;

use aws_lc_rs::digest::{self, SHA256};
use data_encoding::HEXLOWER;
use serde::Serialize;

/// Bytes of one body that a log stores.
const MAX_STORED_BYTES: usize = 1024 * 1024;

/// Length and hash of a body in a log line, with the body itself if the log stores content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BodyDigest {
    /// Length of the body.
    pub bytes: u64,
    /// SHA-256 of the body in lower-case hex.
    pub sha256: String,
    /// The body, or its first mebibyte; only if the log stores content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// True if `text` is not the whole body.
    #[serde(rename = "truncated", skip_serializing_if = "std::ops::Not::not")]
    pub is_truncated: bool,
}

/// Computes a [`BodyDigest`] chunk by chunk.
#[derive(Clone)]
pub struct BodyHasher {
    hash: digest::Context,
    bytes: u64,
    stored: Option<Vec<u8>>,
}

impl BodyHasher {
    pub(super) fn new(stores_content: bool) -> Self {
        Self {
            hash: digest::Context::new(&SHA256),
            bytes: 0,
            stored: stores_content.then(Vec::new),
        }
    }

    /// Adds the next chunk.
    pub fn update(&mut self, chunk: &[u8]) {
        self.hash.update(chunk);
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if let Some(stored) = &mut self.stored {
            let length = MAX_STORED_BYTES.saturating_sub(stored.len());
            stored.extend(chunk.iter().take(length));
        }
    }

    /// Returns the digest of all chunks.
    pub fn finish(self) -> BodyDigest {
        let is_shorter = |stored: &Vec<u8>| (stored.len() as u64) < self.bytes;
        BodyDigest {
            bytes: self.bytes,
            sha256: HEXLOWER.encode(self.hash.finish().as_ref()),
            is_truncated: self.stored.as_ref().is_some_and(is_shorter),
            text: self
                .stored
                .map(|stored| String::from_utf8_lossy(&stored).into_owned()),
        }
    }

    /// Returns the digest of a complete body.
    pub fn digest(mut self, body: &[u8]) -> BodyDigest {
        self.update(body);
        self.finish()
    }
}

impl fmt::Debug for BodyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyHasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_digest_of_the_whole_body() {
        let mut hasher = BodyHasher::new(false);
        for chunk in ["a", "", "bc"] {
            hasher.update(chunk.as_bytes());
        }

        let digest = hasher.finish();

        assert_eq!(digest, BodyHasher::new(false).digest(b"abc"));
        assert_eq!((digest.bytes, digest.text), (3, None));
        // printf abc | sha256sum
        assert!(digest.sha256.starts_with("ba7816bf8f01cfea"));
    }

    #[test]
    fn stored_content_is_truncated_at_a_bound() {
        let short = BodyHasher::new(true).digest(b"abc");
        let long = BodyHasher::new(true).digest(&vec![b'x'; MAX_STORED_BYTES + 1]);

        assert_eq!(short.text.as_deref(), Some("abc"));
        assert!(!short.is_truncated);
        assert_eq!(long.text.map(|text| text.len()), Some(MAX_STORED_BYTES));
        assert!(long.is_truncated && long.bytes == MAX_STORED_BYTES as u64 + 1);
    }
}
