//! One event of a stream.

use bytes::Bytes;

use crate::dialect::{
    document::{Document, first_byte, integer},
    error::{Result, field_error},
    openai_responses::{
        fields::{ERROR, ITEM, TYPE, parse},
        response::item::{CompleteText, ItemSlot, item_texts, text_field},
    },
    sse_event::check_event_name,
    text_edit::TextStream,
};

pub const OUTPUT_INDEX: &[&str] = &["output_index"];
pub const SEQUENCE_NUMBER: &[&str] = &["sequence_number"];
pub const DELTA: &[&str] = &["delta"];
pub const OBFUSCATION: &[&str] = &["obfuscation"];
pub const PART: &[&str] = &["part"];
pub const RESPONSE: &[&str] = &["response"];
pub const REFUSAL_DELTA: &str = "response.refusal.delta";
/// An event with encoded sound, which is no text.
pub const SOUND_DELTA: &str = "response.audio.delta";
pub const CONTENT_INDEX: &[&str] = &["content_index"];
const SUMMARY_INDEX: &[&str] = &["summary_index"];

/// Fields of all events that hold no text of their own.
pub const EVENT_FIELDS: &[&str] = &[
    "type",
    "sequence_number",
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "logprobs",
    "obfuscation",
];

/// An event with its parsed data.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    pub document: Document,
    /// Type of the event.
    pub name: String,
    pub class: EventClass,
}

/// Meaning of an event for the texts and items of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventClass {
    /// A response of the model begins.
    Created,
    /// The response has not ended yet.
    Progress,
    /// An item of the response begins.
    ItemAdded,
    /// An item is complete.
    ItemDone,
    /// A piece of a text.
    Delta,
    /// A text is complete.
    TextDone(&'static str),
    /// A part of an item begins.
    PartAdded,
    /// A part of an item is complete.
    PartDone,
    /// The response has ended.
    Ended,
    /// An error, which ends the stream.
    Failed,
    /// Every other kind of event.
    Other,
}

impl StreamEvent {
    /// Parses the data of an event.
    pub fn parse(data: Bytes) -> Result<Self> {
        let document = parse(data)?;
        let (name, class) = classify(&document)?;
        Ok(Self {
            document,
            name,
            class,
        })
    }

    /// Returns the index of the item that the event belongs to.
    pub fn output_index(&self) -> Result<Option<u64>> {
        integer(&self.document, OUTPUT_INDEX)
    }

    /// Returns the item in the event; an empty one if it has none.
    pub fn item(&self) -> Result<Document> {
        Ok(self.document.child(ITEM)?.unwrap_or_default())
    }

    /// Returns the slot of the text or part that the event belongs to.
    pub fn slot(&self) -> Result<ItemSlot> {
        let summary = integer(&self.document, SUMMARY_INDEX)?;
        if summary.is_some() || self.name.contains("reasoning_summary") {
            return Ok(ItemSlot::Summary(summary.unwrap_or(0)));
        }
        let index = integer(&self.document, CONTENT_INDEX)?;
        Ok(ItemSlot::Content(index.unwrap_or(0)))
    }

    /// Returns whether its texts are thoughts of the model.
    pub fn is_thought(&self) -> bool {
        self.name.contains("reasoning")
    }

    /// Returns the stream of its pieces.
    pub fn text_stream(&self) -> TextStream {
        if self.is_thought() {
            TextStream::Thought
        } else {
            TextStream::Speech
        }
    }

    /// Returns whether its texts are arguments of a call.
    pub fn is_of_call(&self) -> bool {
        self.name.contains("_call")
    }

    /// Returns the complete texts in the event. Each text repeats what earlier events held of it.
    pub fn complete_texts(&self) -> Result<Vec<CompleteText>> {
        match self.class {
            EventClass::ItemAdded | EventClass::ItemDone => item_texts(&self.item()?),
            EventClass::TextDone(field) => {
                let text = CompleteText::read(self.slot()?, field, &self.document)?;
                Ok(vec![text])
            }
            EventClass::PartAdded | EventClass::PartDone => {
                let part = self.document.child(PART)?.unwrap_or_default();
                let Some(field) = text_field(&part)? else {
                    return Ok(Vec::new());
                };
                Ok(vec![CompleteText::read(self.slot()?, field, &part)?])
            }
            EventClass::Created
            | EventClass::Progress
            | EventClass::Delta
            | EventClass::Ended
            | EventClass::Failed
            | EventClass::Other => Ok(Vec::new()),
        }
    }

    /// Returns whether a text ends with the event.
    pub const fn ends_text(&self) -> bool {
        matches!(
            self.class,
            EventClass::TextDone(_) | EventClass::PartDone | EventClass::ItemDone
        )
    }
}

/// Returns the type of an event, and its class. The error of some servers, such as llama.cpp, has
/// no type.
///
/// # Errors
///
/// Fails if it has no type, or one that cannot be the name of an event.
pub fn classify(document: &Document) -> Result<(String, EventClass)> {
    let mut name = document.string(TYPE)?;
    if name.is_none() && first_byte(document, ERROR)? == Some(b'{') {
        name = Some("error".to_owned());
    }
    let name = name.ok_or_else(|| field_error("type", "the type of an event"))?;
    check_event_name(&name)?;
    let class = match name.as_str() {
        "response.output_text.delta" => EventClass::Delta,
        "response.created" => EventClass::Created,
        "response.in_progress" | "response.queued" => EventClass::Progress,
        "response.output_item.added" => EventClass::ItemAdded,
        "response.output_item.done" => EventClass::ItemDone,
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            EventClass::Ended
        }
        "error" => EventClass::Failed,
        SOUND_DELTA => EventClass::Other,
        name => classify_other(name, document)?,
    };
    Ok((name, class))
}

/// Classifies an event by its shape, so that texts of unknown events are seen, too.
fn classify_other(name: &str, document: &Document) -> Result<EventClass> {
    if first_byte(document, PART)? == Some(b'{') {
        return Ok(match name.rsplit('.').next() {
            Some("added") => EventClass::PartAdded,
            Some(_) | None => EventClass::PartDone,
        });
    }
    if first_byte(document, DELTA)? == Some(b'"') {
        return Ok(EventClass::Delta);
    }
    Ok(text_field(document)?.map_or(EventClass::Other, EventClass::TextDone))
}
