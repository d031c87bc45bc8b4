//! Reads token usage and model from the end of a response that is not parsed otherwise.

use memchr::memmem;
use serde_json::{Deserializer, Value};

/// Bytes at the end of a response that are kept.
const TAIL_BYTES: usize = 16 * 1024;

const USAGE_KEYS: [&[u8]; 2] = [b"\"usageMetadata\"", b"\"usage_metadata\""];
const MODEL_KEYS: [&[u8]; 2] = [b"\"modelVersion\"", b"\"model_version\""];

/// The end of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseTail(Vec<u8>);

impl ResponseTail {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
        let excess = self.0.len().saturating_sub(TAIL_BYTES);
        // Moved rarely, not for each piece.
        if excess > TAIL_BYTES {
            self.0.drain(..excess);
        }
    }

    /// Returns the last `usageMetadata`.
    pub(super) fn usage(&self) -> Option<Value> {
        last_value(&self.0, &USAGE_KEYS)
    }

    /// Returns the last `modelVersion`.
    pub(super) fn model(&self) -> Option<String> {
        let model = last_value(&self.0, &MODEL_KEYS)?;
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
}
