//! Reads the model from the start of a response that is not parsed otherwise. The APIs of
//! Anthropic and OpenAI name it before the content.

use memchr::memmem;
use serde_json::Deserializer;

/// Bytes at the start of a response that are kept.
const HEAD_BYTES: usize = 16 * 1024;

/// The start of a response.
#[derive(Debug, Default)]
pub struct ResponseHead {
    bytes: Vec<u8>,
}

impl ResponseHead {
    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let space = HEAD_BYTES - self.bytes.len();
        let kept = piece.get(..space).unwrap_or(piece);
        self.bytes.extend_from_slice(kept);
    }

    /// Returns the first `model`. In a text, the quote of a key follows a backslash.
    pub fn model(&self) -> Option<String> {
        memmem::find_iter(&self.bytes, "\"model\"").find_map(|start| {
            let (before, key) = self.bytes.split_at_checked(start)?;
            let value = key.strip_prefix(b"\"model\"")?.trim_ascii_start();
            let value = value.strip_prefix(b":")?;
            let model = Deserializer::from_slice(value).into_iter().next()?.ok();
            model.filter(|_| before.last() != Some(&b'\\'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Option<String> {
        let mut head = ResponseHead::default();
        for piece in text.as_bytes().chunks(7) {
            head.push(piece);
        }
        head.model()
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
    fn the_start_is_kept_within_its_bound() {
        let mut head = ResponseHead::default();
        for _ in 0..10 {
            head.push(&[b'x'; HEAD_BYTES / 3]);
        }
        assert_eq!(head.bytes.len(), HEAD_BYTES);
    }
}
