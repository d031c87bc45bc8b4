//! Reads token usage and model from the end of a response that is not parsed otherwise.

use memchr::memmem;
use serde_json::{Deserializer, Value};

const USAGE_KEYS: [&[u8]; 2] = [b"\"usageMetadata\"", b"\"usage_metadata\""];
const MODEL_KEYS: [&[u8]; 2] = [b"\"modelVersion\"", b"\"model_version\""];

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

    /// Returns the last `usageMetadata`.
    pub fn usage(&self) -> Option<Value> {
        last_value(&self.bytes, &USAGE_KEYS)
    }

    /// Returns the last `modelVersion`.
    pub fn model(&self) -> Option<String> {
        let model = last_value(&self.bytes, &MODEL_KEYS)?;
        model.as_str().map(str::to_owned)
    }
}

/// Returns the value of the last of these keys. In a text, its quote follows a backslash.
fn last_value(tail: &[u8], keys: &[&[u8]]) -> Option<Value> {
    let ends = keys.iter().flat_map(|key| {
        let starts = memmem::find_iter(tail, key);
        starts.map(|start| (start, start + key.len()))
    });
    let is_key = |(start, _): &(usize, usize)| *start == 0 || tail.get(start - 1) != Some(&b'\\');
    let (_, end) = ends.filter(is_key).max()?;
    let rest = tail.get(end..)?.trim_ascii_start().strip_prefix(b":")?;
    Deserializer::from_slice(rest).into_iter().next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_usage_counts_and_text_is_ignored() {
        let usage = |text: &str| last_value(text.as_bytes(), &USAGE_KEYS);

        assert_eq!(usage("{}"), None);
        assert_eq!(
            usage(r#"data: {"usageMetadata":{"n":1}}\r\ndata: {"usageMetadata" : {"n":2},"x":3}"#),
            Some(json!({ "n": 2 }))
        );
        assert_eq!(
            usage(r#"{"usage_metadata":{"n":1},"text":"\"usageMetadata\":{\"n\":9}"}"#),
            Some(json!({ "n": 1 }))
        );
        assert_eq!(usage(r#"{"usageMetadata":{"n":"#), None);
    }

    #[test]
    fn the_end_is_kept_within_its_bound_however_it_is_cut() {
        let text = format!("{}{}", "x".repeat(500), r#"{"usageMetadata":{"n":7}}"#);
        for piece_length in [1, 7, 25, 64, 600] {
            let mut tail = ResponseTail::new(64);
            for piece in text.as_bytes().chunks(piece_length) {
                tail.push(piece);
                assert!(tail.bytes.len() <= 128, "{piece_length}");
            }
            assert_eq!(tail.usage(), Some(json!({ "n": 7 })), "{piece_length}");
        }
    }
}
