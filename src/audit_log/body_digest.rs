//! The print of something that passes piece by piece, and if it is wanted the
//! thing itself.

use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The most of one thing that a log holds, in bytes.
const MOST: usize = 1024 * 1024;

/// What the log holds of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// How long it is.
    pub bytes: u64,
    /// Its SHA-256 in lower-case hex.
    pub sha256: String,
    /// It, or its begin; only where the log holds content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether `text` is only its begin.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Takes the print of something as it passes.
#[derive(Debug, Clone)]
pub struct BodyDigester {
    hash: Sha256,
    bytes: u64,
    kept: Option<Vec<u8>>,
}

impl BodyDigester {
    pub(super) fn new(keeps: bool) -> Self {
        Self {
            hash: Sha256::default(),
            bytes: 0,
            kept: keeps.then(Vec::new),
        }
    }

    /// Takes the next piece.
    pub fn take(&mut self, piece: &[u8]) {
        self.hash.update(piece);
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        if let Some(kept) = &mut self.kept {
            let room = MOST.saturating_sub(kept.len()).min(piece.len());
            kept.extend_from_slice(piece.get(..room).unwrap_or_default());
        }
    }

    /// The print of it all.
    pub fn finish(self) -> Sample {
        let cut = |it: &Vec<u8>| (it.len() as u64) < self.bytes;
        Sample {
            bytes: self.bytes,
            sha256: HEXLOWER.encode(&self.hash.finalize()),
            cut: self.kept.as_ref().is_some_and(cut),
            text: self
                .kept
                .map(|it| String::from_utf8_lossy(&it).into_owned()),
        }
    }

    /// The print of this, in one piece.
    pub fn of(mut self, whole: &[u8]) -> Sample {
        self.take(whole);
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_print_of_the_whole() {
        let mut pieces = BodyDigester::new(false);
        for piece in ["a", "", "bc"] {
            pieces.take(piece.as_bytes());
        }

        let sample = pieces.finish();

        assert_eq!(sample, BodyDigester::new(false).of(b"abc"));
        assert_eq!((sample.bytes, sample.text), (3, None));
        // printf abc | sha256sum
        assert!(sample.sha256.starts_with("ba7816bf8f01cfea"));
    }

    #[test]
    fn content_is_kept_up_to_a_bound_and_says_where_it_ends() {
        let short = BodyDigester::new(true).of(b"abc");
        let long = BodyDigester::new(true).of(&vec![b'x'; MOST + 1]);

        assert_eq!((short.text.as_deref(), short.cut), (Some("abc"), false));
        assert_eq!(long.text.map(|it| it.len()), Some(MOST));
        assert!(long.cut && long.bytes == MOST as u64 + 1);
    }
}
