//! Events of a stream that differ in their text only: most events of most streams. They are
//! compared with an earlier one instead of being parsed.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use strict_json::string_end;

use crate::dialect::{
    content_form::SOURCE,
    google::response::{
        document::ResponseDocument,
        envelope::ResponseEnvelope,
        text_chunk::{TextChunk, TextChunkTemplate},
    },
    text_edit::TextStream,
};

/// An event that holds one text, and nothing else to inspect.
#[derive(Debug)]
pub struct TextEvent {
    data: Bytes,
    /// Place of the text, with quotes.
    text: Range<usize>,
}

impl TextEvent {
    /// Creates a template of an event's data; `None` if `text`, the JSON of the text, is not a
    /// part of it.
    pub fn new(data: &Bytes, text: &Bytes) -> Option<Self> {
        let start = (text.as_ptr() as usize).checked_sub(data.as_ptr() as usize)?;
        let place = start..start + text.len();
        (data.get(place.clone())? == text).then(|| Self {
            data: data.clone(),
            text: place,
        })
    }

    /// Returns the JSON of the text of an event that differs in its text only.
    ///
    /// INVARIANT: what cannot be read never passes. One valid JSON string replaces another.
    pub fn text_of(&self, data: &Bytes) -> Option<Bytes> {
        let rest = data.strip_prefix(self.data.get(..self.text.start)?)?;
        let end = self.text.start + string_end(rest)?;
        let is_equal = data.get(end..)? == self.data.get(self.text.end..)?;
        is_equal.then(|| data.slice(self.text.start..end))
    }

    /// Returns an event that differs in its text only, with another text.
    pub fn with_text(&self, data: &Bytes, text: &str) -> Option<Bytes> {
        let known = self.text_of(data)?;
        let before = data.get(..self.text.start)?;
        let behind = data.get(self.text.start + known.len()..)?;
        let text = Value::from(text).to_string();
        Some([before, text.as_bytes(), behind].concat().into())
    }
}

/// An event with a text, and the chunk that is made of it.
#[derive(Debug)]
pub struct TextTemplate {
    event: TextEvent,
    chunk: Arc<TextChunkTemplate>,
}

impl TextTemplate {
    /// Creates a template of an event like [`TextEvent::new`]. `source` is the place of its
    /// part in the list of the API.
    pub fn new(data: &Bytes, text: &Bytes, stream: TextStream, source: u64) -> Option<Self> {
        let mut part = json!({ "text": "", SOURCE: source });
        if let (TextStream::Thought, Some(fields)) = (&stream, part.as_object_mut()) {
            fields.insert("thought".to_owned(), json!(true));
        }
        let content = json!({ "role": "model", "parts": [part] });
        let chunk = json!({ "candidates": [{ "content": content, "index": 0 }] });
        let bytes = Bytes::from(chunk.to_string());
        let marker = b"\"text\":";
        let start = bytes
            .windows(marker.len())
            .position(|part| part == marker)?;
        let start = start + marker.len();
        Some(Self {
            event: TextEvent::new(data, text)?,
            chunk: Arc::new(TextChunkTemplate {
                text: start..start + 2,
                usage: bytes.len()..bytes.len(),
                envelope: ResponseEnvelope::None,
                stream,
                model: None,
                bytes,
            }),
        })
    }

    /// Reads an event that differs from the template in its text only. Returns the chunk and
    /// the JSON of the text.
    pub fn read(&self, data: &Bytes) -> Option<(ResponseDocument, Bytes)> {
        let text = self.event.text_of(data)?;
        let form = &self.chunk;
        let before = form.bytes.get(..form.text.start)?;
        let behind = form.bytes.get(form.text.end..)?;
        let bytes = Bytes::from([before, &text, behind].concat());
        let chunk = TextChunk::read(&self.chunk, &bytes)?;
        Some((ResponseDocument::from_text_event(chunk, data.clone()), text))
    }

    /// Returns whether the text is a thought.
    pub fn is_thought(&self) -> bool {
        self.chunk.stream == TextStream::Thought
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_differs_in_its_text_only_is_a_chunk() {
        let data = Bytes::from_static(br#"{"type":"d","text":"a","n":1}"#);
        let text = data.slice(19..22);
        let template = TextTemplate::new(&data, &text, TextStream::Speech, 3).unwrap();
        let read = |data: &'static str| template.read(&Bytes::from_static(data.as_bytes()));
        let (chunk, text) = read(r#"{"type":"d","text":"b\n\"","n":1}"#).unwrap();
        assert!(chunk.is_text());
        assert_eq!(text, r#""b\n\"""#);
        assert_eq!(chunk.plain_texts().collect::<String>(), "b\n\"");
        let form = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"b\n\"","hookgateSource":3}]},"index":0}]}"#;
        assert_eq!(chunk.to_bytes(), form);
        for other in [
            r#"{"type":"d","text":"b","n":2}"#,
            r#"{"type":"e","text":"b","n":1}"#,
            r#"{"type":"d","text":"b","text":"c","n":1}"#,
            r#"{"type":"d","text":5,"n":1}"#,
            "{\"type\":\"d\",\"text\":\"\n\",\"n\":1}",
            r#"{"type":"d","text":"\ud800","n":1}"#,
        ] {
            assert!(read(other).is_none(), "{other}");
        }
    }
}
