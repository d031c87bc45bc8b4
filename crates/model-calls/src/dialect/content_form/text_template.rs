//! Events of a stream that differ in their text only: most events of most streams. They are
//! compared with an earlier one instead of being parsed.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use strict_json::string_end;

use crate::dialect::{
    content_form::SOURCE,
    document::insert,
    google::response::{
        envelope::ResponseEnvelope,
        text_chunk::{TextChunk, TextChunkTemplate, place_in, replace_at},
    },
    text_edit::TextStream,
};

/// An event that holds one text, and nothing else to inspect.
#[derive(Debug)]
pub struct TextEvent {
    data: Bytes,
    /// Places of the values that may differ: the text with its quotes, and counters or
    /// padding. In order.
    places: Vec<Range<usize>>,
    /// Index of the text in `places`.
    text: usize,
}

impl TextEvent {
    /// Creates a template of an event's data; `None` if `text`, the JSON of the text, is not a
    /// part of it. Events may also differ in `others`: strings and whole numbers that hold
    /// nothing to inspect.
    pub fn new(data: &Bytes, text: &Bytes, others: &[Bytes]) -> Option<Self> {
        let text = place_in(data, text)?;
        let others = others.iter().map(|other| place_in(data, other));
        let mut places: Vec<Range<usize>> = others.collect::<Option<_>>()?;
        places.push(text.clone());
        places.sort_by_key(|place| place.start);
        Some(Self {
            data: data.clone(),
            text: places.iter().position(|place| *place == text)?,
            places,
        })
    }

    /// Returns the JSON of the text of an event that differs in its values only.
    pub fn text_of(&self, data: &Bytes) -> Option<Bytes> {
        let places = self.places_in(data)?;
        Some(data.slice(places.get(self.text)?.clone()))
    }

    /// Returns an event that differs in its values only, with another text.
    pub fn with_text(&self, data: &Bytes, text: &str) -> Option<Bytes> {
        let places = self.places_in(data)?;
        let text = Value::from(text).to_string();
        replace_at(data, places.get(self.text)?, text.as_bytes())
    }

    /// Returns the places of the values of an event that differs in them only.
    ///
    /// INVARIANT: what cannot be read never passes. One valid JSON string or number replaces
    /// another.
    pub fn places_in(&self, data: &Bytes) -> Option<Vec<Range<usize>>> {
        let mut found = Vec::with_capacity(self.places.len());
        let (mut known, mut at) = (0, 0);
        for place in &self.places {
            let literal = self.data.get(known..place.start)?;
            let rest = data.get(at..)?.strip_prefix(literal)?;
            let start = at + literal.len();
            let end = start + value_end(rest, *self.data.get(place.start)?)?;
            found.push(start..end);
            (known, at) = (place.end, end);
        }
        (data.get(at..)? == self.data.get(known..)?).then_some(found)
    }
}

/// Returns the end of a string, or of a whole number if `known` is no quote.
fn value_end(rest: &[u8], known: u8) -> Option<usize> {
    if known == b'"' {
        return string_end(rest);
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = digits == 1 || digits > 1 && rest.first() != Some(&b'0');
    is_number.then_some(digits)
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
        Self::of_event(TextEvent::new(data, text, &[])?, stream, source)
    }

    /// Creates a template of an event. `source` is the place of its part in the list of the
    /// API.
    pub fn of_event(event: TextEvent, stream: TextStream, source: u64) -> Option<Self> {
        let mut part = json!({ "text": "", SOURCE: source });
        if stream == TextStream::Thought {
            insert(&mut part, "thought", true);
        }
        let content = json!({ "role": "model", "parts": [part] });
        let chunk = json!({ "candidates": [{ "content": content, "index": 0 }] });
        let bytes = Bytes::from(chunk.to_string());
        let marker = b"\"text\":";
        let mut windows = bytes.windows(marker.len());
        let start = windows.position(|part| part == marker)?;
        let start = start + marker.len();
        Some(Self {
            event,
            chunk: Arc::new(TextChunkTemplate {
                response: 0..bytes.len(),
                text: start..start + 2,
                usage: bytes.len()..bytes.len(),
                envelope: ResponseEnvelope::None,
                stream,
                model: None,
                bytes,
            }),
        })
    }

    /// Reads an event that differs from the template in its text only.
    pub fn read(&self, data: &Bytes) -> Option<TextChunk> {
        TextChunk::of_text(&self.chunk, &self.event.text_of(data)?)
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
    fn counters_and_padding_may_differ() {
        let data = Bytes::from_static(br#"{"n":9,"text":"a","pad":"x"}"#);
        let others = [data.slice(5..6), data.slice(24..27)];
        let event = TextEvent::new(&data, &data.slice(14..17), &others).unwrap();
        let text = |data: &'static str| event.text_of(&Bytes::from_static(data.as_bytes()));
        assert_eq!(text(r#"{"n":10,"text":"b","pad":"yy"}"#).unwrap(), r#""b""#);
        for other in [
            r#"{"n":-1,"text":"b","pad":"yy"}"#,
            r#"{"n":1.5,"text":"b","pad":"yy"}"#,
            r#"{"n":01,"text":"b","pad":"yy"}"#,
            r#"{"n":,"text":"b","pad":"yy"}"#,
            r#"{"n":"1","text":"b","pad":"yy"}"#,
            r#"{"n":10,"text":"b","pad":"yy","more":"c"}"#,
            r#"{"n":10,"text":"b","pad":["yy"]}"#,
        ] {
            assert!(text(other).is_none(), "{other}");
        }
    }

    #[test]
    fn an_event_that_differs_in_its_text_only_is_a_chunk() {
        let data = Bytes::from_static(br#"{"type":"d","text":"a","n":1}"#);
        let text = data.slice(19..22);
        let template = TextTemplate::new(&data, &text, TextStream::Speech, 3).unwrap();
        let read = |data: &'static str| template.read(&Bytes::from_static(data.as_bytes()));
        let chunk = read(r#"{"type":"d","text":"b\n\"","n":1}"#).unwrap();
        assert_eq!(chunk.plain_text(), Some("b\n\""));
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
