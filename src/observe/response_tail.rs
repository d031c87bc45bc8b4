//! Reads token usage and model from the end of a response that is not parsed otherwise.

use std::mem;

use bytes::Bytes;
use memchr::{memchr2_iter, memrchr_iter};
use serde_json::Deserializer;

const USAGE_KEY: KeySpellings = ("\"usage", ["Metadata\"", "_metadata\""]);
const MODEL_KEY: KeySpellings = ("\"model", ["Version\"", "_version\""]);

/// Begin of a key, and what follows it in either spelling.
type KeySpellings = (&'static str, [&'static str; 2]);

/// The end of a response.
#[derive(Debug)]
pub struct ResponseTail {
    /// Bytes before the last piece, if that is shorter than `size`.
    earlier: Vec<u8>,
    last: Bytes,
    /// Bytes that are kept at least.
    size: usize,
}

impl ResponseTail {
    /// Keeps at least the last `size` bytes, and at most twice as many.
    pub const fn new(size: usize) -> Self {
        Self {
            earlier: Vec::new(),
            last: Bytes::new(),
            size,
        }
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &Bytes) {
        if piece.len() < self.size {
            self.keep_last();
        } else {
            self.earlier.clear();
        }
        self.last = piece.clone();
    }

    /// Returns the JSON of the last `usageMetadata`.
    pub fn usage(&mut self) -> Option<&[u8]> {
        first_object(last_value(self.bytes(), USAGE_KEY)?)
    }

    /// Returns the last `modelVersion`.
    pub fn model(&mut self) -> Option<String> {
        let value = last_value(self.bytes(), MODEL_KEY)?;
        Deserializer::from_slice(value).into_iter().next()?.ok()
    }

    fn bytes(&mut self) -> &[u8] {
        if self.earlier.is_empty() {
            return end(&self.last, self.size);
        }
        self.keep_last();
        &self.earlier
    }

    /// Moves the last piece to the bytes before the next one.
    fn keep_last(&mut self) {
        let last = mem::take(&mut self.last);
        let last = end(&last, self.size);
        // Moved rarely, not for each piece.
        if self.earlier.len() + last.len() > 2 * self.size {
            let excess = (self.earlier.len() + last.len()).saturating_sub(self.size);
            self.earlier.drain(..excess.min(self.earlier.len()));
        }
        self.earlier.extend_from_slice(last);
    }
}

/// Returns the last `size` bytes.
fn end(bytes: &[u8], size: usize) -> &[u8] {
    let start = bytes.len().saturating_sub(size);
    bytes.get(start..).unwrap_or_default()
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
    // Few quotes are between the key and the end.
    let rest = memrchr_iter(b'"', tail).find_map(after_key)?;
    rest.trim_ascii_start().strip_prefix(b":")
}

/// Returns the object that a JSON text begins with, if no brace is in a string of it.
fn first_object(json: &[u8]) -> Option<&[u8]> {
    let mut depth = 0;
    for position in memchr2_iter(b'{', b'}', json) {
        depth += if json.get(position) == Some(&b'{') {
            1
        } else {
            -1
        };
        if depth == 0 {
            return json.get(..=position);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::TokenUsage;

    /// Returns the prompt's tokens in the last usage of a tail.
    fn prompt_tokens(tail: &mut ResponseTail) -> Option<u64> {
        TokenUsage::parse(tail.usage()?)?.prompt
    }

    #[test]
    fn the_last_usage_counts_and_text_is_ignored() {
        let usage = |text: &str| {
            let mut tail = ResponseTail::new(1024);
            tail.push(&Bytes::copy_from_slice(text.as_bytes()));
            prompt_tokens(&mut tail)
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
                tail.push(&Bytes::copy_from_slice(piece));
                assert!(tail.earlier.len() <= 128, "{piece_length}");
            }
            assert_eq!(prompt_tokens(&mut tail), Some(7), "{piece_length}");
            assert_eq!(tail.model().as_deref(), Some("m"), "{piece_length}");
        }
    }
}
