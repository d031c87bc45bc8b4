//! A chunk that differs from an earlier one in its text and its token counts only: most chunks
//! of most streams. It is compared with that chunk instead of being parsed.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::Value;
use strict_json::{string_end, unquote};

use crate::dialect::{
    document::check_part,
    google::response::envelope::ResponseEnvelope,
    text_edit::{ResponseTextEditor, TextChannel, TextRest, TextStream},
};

/// A parsed chunk that holds one text of the first candidate and nothing else to inspect.
#[derive(Debug)]
pub struct TextChunkTemplate {
    /// The chunk in its envelope, as received.
    pub bytes: Bytes,
    pub envelope: ResponseEnvelope,
    /// Place of the response in its envelope.
    pub response: Range<usize>,
    /// Place of the text, with quotes.
    pub text: Range<usize>,
    /// Place of the token counts behind the text; an empty one at the end if there are none.
    pub usage: Range<usize>,
    pub stream: TextStream,
    /// Name of the model that answered.
    pub model: Option<String>,
}

/// An unparsed chunk that fits a template.
#[derive(Debug, Clone)]
pub struct TextChunk {
    template: Arc<TextChunkTemplate>,
    bytes: Bytes,
    /// Place of the text, with quotes.
    place: Range<usize>,
    /// Token counts; empty if there are none.
    usage: Bytes,
    text: String,
    is_edited: bool,
}

/// Returns the place of a slice in the bytes that it was taken from.
pub fn place_in(bytes: &[u8], slice: &[u8]) -> Option<Range<usize>> {
    let start = slice.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    let end = start + slice.len();
    (end <= bytes.len()).then_some(start..end)
}

/// Returns bytes with `json` at the place of another value.
pub fn replace_at(bytes: &[u8], place: &Range<usize>, json: &[u8]) -> Option<Bytes> {
    let before = bytes.get(..place.start)?;
    let behind = bytes.get(place.end..)?;
    Some([before, json, behind].concat().into())
}

impl TextChunk {
    /// Reads a chunk; `None` if it does not fit the template.
    ///
    /// INVARIANT: what cannot be read never passes. One valid JSON string and one checked JSON
    /// object replace others, so everything else that was read from the template holds for the
    /// chunk, too.
    pub fn read(template: &Arc<TextChunkTemplate>, bytes: &Bytes) -> Option<Self> {
        let (text, usage, known) = (&template.text, &template.usage, &template.bytes);
        let rest = bytes.strip_prefix(known.get(..text.start)?)?;
        let place = text.start..text.start + string_end(rest)?;
        let rest = bytes.get(place.end..)?;
        let rest = rest.strip_prefix(known.get(text.end..usage.start)?)?;
        let counts = rest.strip_suffix(known.get(usage.end..)?)?;
        if Some(counts) != known.get(usage.clone()) {
            let may_differ = !usage.is_empty() && counts.first() == Some(&b'{');
            may_differ.then(|| check_part(counts).ok())??;
        }
        Some(Self {
            text: unquote(bytes.get(place.clone())?)?.into_owned(),
            usage: bytes.slice_ref(counts),
            template: Arc::clone(template),
            bytes: bytes.clone(),
            place,
            is_edited: false,
        })
    }

    /// Creates a chunk like the template that holds a text, which is given as JSON; `None` if
    /// that is no valid string.
    pub fn of_text(template: &Arc<TextChunkTemplate>, json: &[u8]) -> Option<Self> {
        let (place, usage) = (&template.text, &template.usage);
        Some(Self {
            text: unquote(json)?.into_owned(),
            usage: template.bytes.slice(usage.clone()),
            template: Arc::clone(template),
            bytes: replace_at(&template.bytes, place, json)?,
            place: place.start..place.start + json.len(),
            is_edited: false,
        })
    }

    /// Returns the bytes that it was read from, with its envelope.
    pub fn original_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Returns the response in the original or the edited bytes of the chunk, without envelope.
    pub fn response_in(&self, bytes: &Bytes) -> Bytes {
        let place = &self.template.response;
        let behind = self.template.bytes.len() - place.end;
        bytes.slice(place.start..bytes.len() - behind)
    }

    pub fn envelope(&self) -> ResponseEnvelope {
        self.template.envelope
    }

    /// Returns the name of the model that answered.
    pub fn model(&self) -> Option<&str> {
        self.template.model.as_deref()
    }

    /// Returns the JSON of the token counts.
    pub fn usage(&self) -> Option<Bytes> {
        (!self.usage.is_empty()).then(|| self.usage.clone())
    }

    /// Returns the text, which may be a thought.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text, unless it is a thought.
    pub fn plain_text(&self) -> Option<&str> {
        (self.template.stream == TextStream::Speech).then_some(&self.text)
    }

    /// Returns the text, if it was edited.
    pub fn edited_text(&self) -> Option<&str> {
        self.is_edited.then_some(&*self.text)
    }

    /// Edits the text. More of it may follow in the next chunk.
    pub fn edit_text(&mut self, editor: &mut dyn ResponseTextEditor) {
        let channel = TextChannel {
            candidate: 0,
            stream: self.template.stream.clone(),
        };
        if let Some(new) = editor.edit_piece(&channel, &self.text, TextRest::MayFollow) {
            self.text = new;
            self.is_edited = true;
        }
    }

    pub fn is_edited(&self) -> bool {
        self.is_edited
    }

    /// Returns the chunk with its envelope: the original bytes with the edited text.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited {
            return self.bytes.clone();
        }
        let text = Value::from(self.text.as_str()).to_string();
        replace_at(&self.bytes, &self.place, text.as_bytes()).unwrap_or_default()
    }
}
