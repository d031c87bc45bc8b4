//! Reads the model from the end of a response that is not parsed otherwise. Google's APIs name it
//! behind the content.

use memchr::memmem;
use serde_json::Deserializer;

/// Begin of the key, and what follows it in either spelling.
const KEY: &[u8] = b"\"model";
const KEY_ENDS: [&[u8]; 2] = [b"Version\"", b"_version\""];

/// The end of a response.
#[derive(Debug)]
pub struct ResponseTail {
    bytes: Vec<u8>,
    /// Bytes that are kept at least.
    size: usize,
}

impl ResponseTail {
    /// Keeps at least the last `size` bytes, and at most twice as many.
    pub const fn new(size: usize) -> Self {
        let bytes = Vec::new();
        Self { bytes, size }
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let start = piece.len().saturating_sub(self.size);
        let piece = piece.get(start..).unwrap_or_default();
        // Moved rarely, not for each piece.
        if self.bytes.len() + piece.len() > 2 * self.size {
            let excess = (self.bytes.len() + piece.len()).saturating_sub(self.size);
            self.bytes.drain(..excess.min(self.bytes.len()));
        }
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the last `modelVersion`.
    pub fn model(&self) -> Option<String> {
        let value = last_value(&self.bytes)?;
        Deserializer::from_slice(value).into_iter().next()?.ok()
    }
}

/// Returns what begins with the value of the last such key. In a text, its quote follows a
/// backslash.
fn last_value(tail: &[u8]) -> Option<&[u8]> {
    let after_key = |start: usize| {
        let (before, key) = tail.split_at_checked(start)?;
        let end = key.strip_prefix(KEY)?;
        let rest = KEY_ENDS.iter().find_map(|rest| end.strip_prefix(*rest))?;
        (before.last() != Some(&b'\\')).then_some(rest)
    };
    // Forwards, because that search uses vector instructions.
    let rest = memmem::find_iter(tail, KEY).filter_map(after_key).last()?;
    rest.trim_ascii_start().strip_prefix(b":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_model_counts_and_text_is_ignored() {
        let model = |text: &str| {
            let mut tail = ResponseTail::new(1024);
            tail.push(text.as_bytes());
            tail.model()
        };

        assert_eq!(model("{}"), None);
        for text in [
            r#"data: {"modelVersion":"a"}  data: {"modelVersion" : "m","x":3}"#,
            r#"{"model_version":"m","text":"\"modelVersion\":\"n\"}"#,
        ] {
            assert_eq!(model(text).as_deref(), Some("m"), "{text}");
        }
        assert_eq!(model(r#"{"modelVersion":"#), None);
    }

    #[test]
    fn the_end_is_kept_within_its_bound_however_it_is_cut() {
        let text = format!(r#"{}{{"modelVersion":"m"}}"#, "x".repeat(500));
        for piece_length in [1, 7, 25, 64, 600] {
            let mut tail = ResponseTail::new(64);
            for piece in text.as_bytes().chunks(piece_length) {
                tail.push(piece);
                assert!(tail.bytes.len() <= 128, "{piece_length}");
            }
            assert_eq!(tail.model().as_deref(), Some("m"), "{piece_length}");
        }
    }
}
