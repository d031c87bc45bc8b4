//! A chunk that holds text of the first candidate and nothing else to inspect: most chunks of
//! most streams. It is read from the layout of its JSON, without a document.

use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;
use strict_json::{Layout, string_end};

use crate::dialect::{
    google::response::envelope::ResponseEnvelope,
    json::{self, LAYOUT_DEPTH},
    text_edit::{ResponseTextEditor, TextChannel, TextRest, TextStream},
};

/// A chunk that holds text of the first candidate and nothing else to inspect.
#[derive(Debug, Clone)]
pub struct TextChunk {
    /// INVARIANT: JSON that was checked like a document.
    bytes: Bytes,
    envelope: ResponseEnvelope,
    texts: Vec<ChunkText>,
    fields: ChunkFields,
}

/// Places and facts that are equal for chunks that differ in their text only.
#[derive(Debug, Clone, Default)]
struct ChunkFields {
    /// Whether there are parts, with or without text.
    has_parts: bool,
    /// Place of the model's name, without quotes.
    model: Option<Range<usize>>,
    /// Place of the token counts.
    usage: Option<Range<usize>>,
}

#[derive(Debug, Clone)]
struct ChunkText {
    /// Place of the string, with quotes.
    place: Range<usize>,
    decoded: String,
    is_thought: bool,
    is_edited: bool,
}

/// An earlier chunk with one text. Chunks that differ from it in that text only need no
/// layout of their own.
#[derive(Debug)]
pub struct TextChunkTemplate {
    bytes: Bytes,
    place: Range<usize>,
    is_thought: bool,
    fields: ChunkFields,
}

impl TextChunk {
    /// Reads a chunk; `None` if it holds anything else, or is invalid.
    ///
    /// INVARIANT: what cannot be read never passes. The chunk is checked like a document. Each
    /// of its keys must equal a listed one, with a value of the listed type. So a document
    /// would show, or refuse, nothing but texts, the model's name and token counts.
    pub fn read(bytes: &Bytes, envelope: ResponseEnvelope) -> Option<Self> {
        let depth = match envelope {
            ResponseEnvelope::None => LAYOUT_DEPTH,
            ResponseEnvelope::ResponseField => LAYOUT_DEPTH + 1,
        };
        let layout = json::layout_to_depth(bytes, depth).ok()?;
        let mut reader = LayoutReader {
            bytes,
            layout: &layout,
            texts: Vec::new(),
            fields: ChunkFields::default(),
        };
        match envelope {
            ResponseEnvelope::None => reader.response(0)?,
            ResponseEnvelope::ResponseField => reader.envelope(0)?,
        }
        Some(Self {
            bytes: bytes.clone(),
            envelope,
            texts: reader.texts,
            fields: reader.fields,
        })
    }

    /// Returns the chunk as a template, if it has exactly one text.
    pub fn template(&self) -> Option<TextChunkTemplate> {
        let [text] = self.texts.as_slice() else {
            return None;
        };
        Some(TextChunkTemplate {
            bytes: self.bytes.clone(),
            place: text.place.clone(),
            is_thought: text.is_thought,
            fields: self.fields.clone(),
        })
    }

    pub fn envelope(&self) -> ResponseEnvelope {
        self.envelope
    }

    /// Returns whether there are parts, with or without text.
    pub fn has_parts(&self) -> bool {
        self.fields.has_parts
    }

    /// Returns the name of the model that answered.
    pub fn model(&self) -> Option<&str> {
        let name = self.bytes.get(self.fields.model.clone()?)?;
        std::str::from_utf8(name).ok()
    }

    /// Returns the JSON of the token counts.
    pub fn usage(&self) -> Option<Bytes> {
        Some(self.bytes.slice(self.fields.usage.clone()?))
    }

    /// Returns the texts in order, without thoughts.
    pub fn plain_texts(&self) -> impl Iterator<Item = &str> {
        let plain = self.texts.iter().filter(|text| !text.is_thought);
        plain.map(|text| text.decoded.as_str())
    }

    /// Edits every text. More of each may follow in the next chunk.
    pub fn edit_texts(&mut self, editor: &mut dyn ResponseTextEditor) {
        for text in &mut self.texts {
            let channel = TextChannel {
                candidate: 0,
                stream: if text.is_thought {
                    TextStream::Thought
                } else {
                    TextStream::Speech
                },
            };
            if let Some(new) = editor.edit_piece(&channel, &text.decoded, TextRest::MayFollow) {
                text.decoded = new;
                text.is_edited = true;
            }
        }
    }

    pub fn is_edited(&self) -> bool {
        self.texts.iter().any(|text| text.is_edited)
    }

    /// Returns the chunk with its envelope: the original bytes with edited texts.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited() {
            return self.bytes.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut copied = 0;
        for text in self.texts.iter().filter(|text| text.is_edited) {
            out.extend(self.bytes.get(copied..text.place.start).unwrap_or_default());
            out.extend(Value::from(text.decoded.as_str()).to_string().as_bytes());
            copied = text.place.end;
        }
        out.extend(self.bytes.get(copied..).unwrap_or_default());
        out.into()
    }
}

impl TextChunkTemplate {
    /// Reads a chunk that differs from the template in its text only: one valid JSON string
    /// replaces another, so everything else that was checked holds for it, too.
    pub fn read(&self, bytes: &Bytes, envelope: ResponseEnvelope) -> Option<TextChunk> {
        let (start, old_end) = (self.place.start, self.place.end);
        let (before, rest) = bytes.split_at_checked(start)?;
        if before != self.bytes.get(..start)? {
            return None;
        }
        let end = start + string_end(rest)?;
        if bytes.get(end..)? != self.bytes.get(old_end..)? {
            return None;
        }
        let shift = |place: &Range<usize>| {
            let is_behind = place.start >= old_end;
            let shift = |at: usize| if is_behind { at - old_end + end } else { at };
            shift(place.start)..shift(place.end)
        };
        Some(TextChunk {
            texts: vec![ChunkText::read(bytes, start..end, self.is_thought)?],
            bytes: bytes.clone(),
            envelope,
            fields: ChunkFields {
                has_parts: true,
                model: self.fields.model.as_ref().map(shift),
                usage: self.fields.usage.as_ref().map(shift),
            },
        })
    }
}

impl ChunkText {
    fn read(bytes: &[u8], place: Range<usize>, is_thought: bool) -> Option<Self> {
        Some(Self {
            decoded: json::unquote(bytes.get(place.clone())?).ok()?,
            place,
            is_thought,
            is_edited: false,
        })
    }
}

/// Reads a layout. Every method returns `None` for what a text chunk must not hold.
struct LayoutReader<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
    texts: Vec<ChunkText>,
    fields: ChunkFields,
}

impl<'a> LayoutReader<'a> {
    fn envelope(&mut self, index: usize) -> Option<()> {
        self.object(index, |reader, key, value| match key {
            br#""response""# => reader.response(value),
            br#""traceId""# => Some(()),
            _ => None,
        })
    }

    fn response(&mut self, index: usize) -> Option<()> {
        self.object(index, |reader, key, value| match key {
            br#""candidates""# => reader.only_element(value, Self::candidate),
            br#""modelVersion""# => {
                reader.fields.model = Some(reader.plain_string(value)?);
                Some(())
            }
            br#""usageMetadata""# => {
                reader.fields.usage = reader.layout.place(value);
                reader.starts_with(value, b'{')
            }
            br#""responseId""# | br#""createTime""# => reader.starts_with(value, b'"'),
            _ => None,
        })
    }

    /// Unnumbered candidates are counted from zero.
    fn candidate(&mut self, index: usize) -> Option<()> {
        self.object(index, |reader, key, value| match key {
            br#""content""# => reader.content(value),
            br#""index""# => (reader.raw(value)? == b"0").then_some(()),
            br#""safetyRatings""# | br#""avgLogprobs""# | br#""tokenCount""# => Some(()),
            _ => None,
        })
    }

    fn content(&mut self, index: usize) -> Option<()> {
        self.object(index, |reader, key, value| match key {
            br#""parts""# => reader.elements(value, Self::part),
            br#""role""# => reader.starts_with(value, b'"'),
            _ => None,
        })
    }

    fn part(&mut self, index: usize) -> Option<()> {
        self.fields.has_parts = true;
        let (mut text, mut is_thought) = (None, false);
        self.object(index, |reader, key, value| match key {
            br#""text""# => {
                text = Some(reader.layout.place(value)?);
                reader.starts_with(value, b'"')
            }
            br#""thought""# => {
                is_thought = reader.raw(value)? == b"true";
                (is_thought || reader.raw(value)? == b"false").then_some(())
            }
            br#""thoughtSignature""# => reader.starts_with(value, b'"'),
            _ => None,
        })?;
        if let Some(place) = text {
            self.texts
                .push(ChunkText::read(self.bytes, place, is_thought)?);
        }
        Some(())
    }

    /// Visits the fields of an object, with their keys in quotes.
    fn object(
        &mut self,
        index: usize,
        mut visit: impl FnMut(&mut Self, &'a [u8], usize) -> Option<()>,
    ) -> Option<()> {
        self.starts_with(index, b'{')?;
        let (layout, bytes) = (self.layout, self.bytes);
        for value in layout.within(index)? {
            visit(self, bytes.get(layout.key(value)?)?, value)?;
        }
        Some(())
    }

    fn elements(
        &mut self,
        index: usize,
        mut visit: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        self.starts_with(index, b'[')?;
        let layout = self.layout;
        for value in layout.within(index)? {
            visit(self, value)?;
        }
        Some(())
    }

    fn only_element(
        &mut self,
        index: usize,
        visit: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        let layout = self.layout;
        (layout.within(index)?.count() == 1).then_some(())?;
        self.elements(index, visit)
    }

    /// Returns the place of a string without escapes, between its quotes.
    fn plain_string(&self, index: usize) -> Option<Range<usize>> {
        let place = self.layout.place(index)?;
        let [b'"', plain @ .., b'"'] = self.bytes.get(place.clone())? else {
            return None;
        };
        let has_escapes = memchr::memchr(b'\\', plain).is_some();
        (!has_escapes).then_some(place.start + 1..place.end - 1)
    }

    fn starts_with(&self, index: usize, first: u8) -> Option<()> {
        (self.raw(index)?.first() == Some(&first)).then_some(())
    }

    fn raw(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.layout.place(index)?)
    }
}
