//! Reads the model from a response that is not parsed otherwise. The APIs of Anthropic and OpenAI
//! name it before the content, but OpenAI's behind the instructions.

use memchr::memmem;
use serde_json::Deserializer;

/// Bytes of the response that are kept, for a key and value of which only the start has arrived.
const MAX_KEPT_BYTES: usize = 1024;

/// Finds the first `model` of a response.
#[derive(Debug, Default)]
pub struct ModelReader {
    /// The end of what was read, until the model is found.
    bytes: Vec<u8>,
    model: Option<String>,
}

impl ModelReader {
    /// Reads the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        for piece in piece.chunks(MAX_KEPT_BYTES) {
            if self.model.is_some() {
                return;
            }
            self.bytes.extend_from_slice(piece);
            self.model = find_model(&self.bytes);
            let excess = self.bytes.len().saturating_sub(MAX_KEPT_BYTES);
            self.bytes.drain(..excess);
        }
    }

    /// Returns the model, once.
    pub const fn take_model(&mut self) -> Option<String> {
        self.model.take()
    }
}

/// Returns the first `model` with a complete name. In a text, the quote of a key follows a
/// backslash.
fn find_model(bytes: &[u8]) -> Option<String> {
    memmem::find_iter(bytes, "\"model\"").find_map(|start| {
        let (before, key) = bytes.split_at_checked(start)?;
        let value = key.strip_prefix(b"\"model\"")?.trim_ascii_start();
        let value = value.strip_prefix(b":")?;
        let model = Deserializer::from_slice(value).into_iter().next()?.ok();
        model.filter(|_| before.last().is_some_and(|byte| *byte != b'\\'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Option<String> {
        let mut reader = ModelReader::default();
        for piece in text.as_bytes().chunks(7) {
            reader.push(piece);
            assert!(reader.bytes.len() <= MAX_KEPT_BYTES);
        }
        reader.take_model()
    }

    #[test]
    fn the_first_model_counts_and_text_is_ignored() {
        for (text, expected) in [
            (r#"{"id":"x","model" : "m","a":{"model":"n"}}"#, Some("m")),
            (r#"{"text":"\"model\":\"n\"","model":"m"}"#, Some("m")),
            (r#"{"text":"model","model":null}"#, None),
            (r#"{"model":"m"#, None),
            ("{}", None),
        ] {
            assert_eq!(model(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_model_behind_long_instructions_is_found_wherever_pieces_end() {
        let text = r#""model":\"n\" "#;
        for length in 2000..2014 {
            let instructions = "x".repeat(length) + &text.replace('"', "\\\"").repeat(200);
            let body = format!(r#"{{"instructions":"{instructions}","model":"m"}}"#);
            assert_eq!(model(&body).as_deref(), Some("m"), "{length}");
        }
    }
}
