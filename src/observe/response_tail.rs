//! Reads token usage and model from the end of a response that is not parsed otherwise.

use memchr::memmem;
use serde_json::Deserializer;

use super::token_usage::TokenUsage;

const USAGE_KEY: KeySpellings = ("\"usage", ["Metadata\"", "_metadata\""]);
const MODEL_KEY: KeySpellings = ("\"model", ["Version\"", "_version\""]);

/// Begin of a key, and what follows it in either spelling.
type KeySpellings = (&'static str, [&'static str; 2]);

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
    pub fn usage(&self) -> Option<TokenUsage> {
        TokenUsage::parse(last_value(&self.bytes, USAGE_KEY)?)
    }

    /// Returns the last `modelVersion`.
    pub fn model(&self) -> Option<String> {
        let value = last_value(&self.bytes, MODEL_KEY)?;
        Deserializer::from_slice(value).into_iter().next()?.ok()
    }
}

/// Returns what begins with the value of the last such key. In a text, its quote follows a
/// backslash.
fn last_value(tail: &[u8], (begin, ends): KeySpellings) -> Option<&[u8]> {
    let after_key = |start: usize| {
        let (before, key) = tail.split_at_checked(start)?;
        let end = key.strip_prefix(begin.as_bytes())?;
        let mut ends = ends.iter().map(|spelling| spelling.as_bytes());
        let rest = ends.find_map(|spelling| end.strip_prefix(spelling))?;
        (before.last() != Some(&b'\\')).then_some(rest)
    };
    // Forwards, because that search uses vector instructions.
    let rest = memmem::find_iter(tail, begin)
        .filter_map(after_key)
        .last()?;
    rest.trim_ascii_start().strip_prefix(b":")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the prompt's tokens in the last usage of a tail.
    fn prompt_tokens(tail: &ResponseTail) -> Option<u64> {
        tail.usage()?.prompt
    }

    #[test]
    fn the_last_usage_counts_and_text_is_ignored() {
        let usage = |text: &str| {
            let mut tail = ResponseTail::new(1024);
            tail.push(text.as_bytes());
            prompt_tokens(&tail)
        };

        assert_eq!(usage("{}"), None);
        assert_eq!(
            usage(concat!(
                r#"data: {"usageMetadata":{"promptTokenCount":1}}\r\n"#,
                r#"data: {"usageMetadata" : {"promptTokenCount":2},"x":3}"#
            )),
            Some(2)
        );
        assert_eq!(
            usage(concat!(
                r#"{"usage_metadata":{"promptTokenCount":1},"#,
                r#""text":"\"usageMetadata\":{\"promptTokenCount\":9}"}"#
            )),
            Some(1)
        );
        assert_eq!(usage(r#"{"usageMetadata":{"promptTokenCount":"#), None);
    }

    #[test]
    fn the_end_is_kept_within_its_bound_however_it_is_cut() {
        let end = r#"{"usageMetadata":{"promptTokenCount":7},"modelVersion":"m"}"#;
        let text = format!("{}{end}", "x".repeat(500));
        for piece_length in [1, 7, 25, 64, 600] {
            let mut tail = ResponseTail::new(64);
            for piece in text.as_bytes().chunks(piece_length) {
                tail.push(piece);
                assert!(tail.bytes.len() <= 128, "{piece_length}");
            }
            assert_eq!(prompt_tokens(&tail), Some(7), "{piece_length}");
            assert_eq!(tail.model().as_deref(), Some("m"), "{piece_length}");
        }
    }
}
