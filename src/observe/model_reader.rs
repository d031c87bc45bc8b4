//! Reader of the model's name in the bytes of a response.

use memchr::memmem;
use serde_json::Deserializer;

/// Bytes of the response that are kept, for a key and value of which only the start has arrived.
const MAX_KEPT_BYTES: usize = 1024;

/// Start of every key.
const KEY_START: &str = "\"model";

/// Finds the model of a response.
#[derive(Debug)]
pub struct ModelReader {
    /// Keys of the model, with their quotes.
    keys: &'static [&'static str],
    /// True if the last model counts, not the first.
    reads_last: bool,
    /// The end of what was read.
    bytes: Vec<u8>,
    model: Option<String>,
}

impl ModelReader {
    /// Creates the reader for a response of this dialect. The APIs of Anthropic and OpenAI name the
    /// model before the content, but OpenAI's behind the instructions; Google's behind the content.
    pub fn of_dialect(dialect: &str) -> Self {
        let reads_last = !["anthropic", "openai_chat", "openai_responses"].contains(&dialect);
        Self {
            keys: if reads_last {
                &["\"modelVersion\"", "\"model_version\""]
            } else {
                &["\"model\""]
            },
            reads_last,
            bytes: Vec::new(),
            model: None,
        }
    }

    /// Reads the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        for piece in piece.chunks(MAX_KEPT_BYTES) {
            if self.model.is_some() && !self.reads_last {
                return;
            }
            self.bytes.extend_from_slice(piece);
            self.model = self.find_model().or_else(|| self.model.take());
            let excess = self.bytes.len().saturating_sub(MAX_KEPT_BYTES);
            self.bytes.drain(..excess);
        }
    }

    /// Returns the model, at the end of the response.
    pub fn into_model(self) -> Option<String> {
        self.model
    }

    /// Returns the first or last model with a complete name in the kept bytes. In a text, the quote
    /// of a key follows a backslash.
    fn find_model(&self) -> Option<String> {
        let starts = memmem::find_iter(&self.bytes, KEY_START);
        let mut models = starts.filter_map(|start| {
            let (before, rest) = self.bytes.split_at_checked(start)?;
            let mut keys = self.keys.iter();
            let value = keys.find_map(|key| rest.strip_prefix(key.as_bytes()))?;
            let value = value.trim_ascii_start().strip_prefix(b":")?;
            let mut values = Deserializer::from_slice(value).into_iter::<String>();
            let model = values.next()?.ok();
            model.filter(|_| before.last().is_some_and(|byte| *byte != b'\\'))
        });
        if self.reads_last {
            models.last()
        } else {
            models.next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(dialect: &str, text: &str) -> Option<String> {
        let mut reader = ModelReader::of_dialect(dialect);
        for piece in text.as_bytes().chunks(7) {
            reader.push(piece);
            assert!(reader.bytes.len() <= MAX_KEPT_BYTES);
        }
        reader.into_model()
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
            assert_eq!(model("anthropic", text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_model_behind_long_instructions_is_found_wherever_pieces_end() {
        let text = r#""model":\"n\" "#;
        for length in 2000..2014 {
            let instructions = "x".repeat(length) + &text.replace('"', "\\\"").repeat(200);
            let body = format!(r#"{{"instructions":"{instructions}","model":"m"}}"#);
            let found = model("openai_responses", &body);
            assert_eq!(found.as_deref(), Some("m"), "{length}");
        }
    }

    #[test]
    fn the_last_model_of_googles_apis_counts_wherever_pieces_end() {
        let first = r#"data: {"modelVersion":"a","model":"b"}"#;
        let last = r#"{"model_version" : "m","text":"\"modelVersion\":\"n\"","x":3}"#;
        for length in 2000..2014 {
            let body = format!("{first}{}{last}", " ".repeat(length));
            assert_eq!(model("gemini", &body).as_deref(), Some("m"), "{length}");
        }
        for (text, expected) in [
            (first, Some("a")),
            (r#"{"modelVersion":"#, None),
            ("{}", None),
        ] {
            assert_eq!(model("vertex", text).as_deref(), expected, "{text}");
        }
    }
}
