//! Items of which the agent has received the beginning, with their texts as sent.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, insert},
    error::Result,
    openai_responses::{
        fields::{CONTENT, ID, ITEM, STATUS, SUMMARY, TYPE, clear_marks},
        response::item::{BLOCK_LISTS, ItemSlot, OutputKind, text_field, write_plain_thoughts},
        stream::{
            event::{EventClass, PART, REFUSAL_DELTA, StreamEvent},
            sender::EventSender,
        },
    },
};

pub const TEXT_DELTA: &str = "response.output_text.delta";
const SUMMARY_DELTA: &str = "response.reasoning_summary_text.delta";
const REASONING_DELTA: &str = "response.reasoning_text.delta";

/// An item of which the agent has received the beginning.
#[derive(Debug)]
pub struct OpenItem {
    /// Output index as sent.
    pub index: u64,
    /// Output index of upstream; `None` for a synthetic item.
    pub upstream: Option<u64>,
    pub kind: OutputKind,
    pub id: String,
    /// The item as it began.
    item: Document,
    pub texts: Vec<OpenText>,
    /// Indexes into `texts`, since a message may have many blocks.
    positions: HashMap<ItemSlot, usize>,
}

/// A text of an open item.
#[derive(Debug)]
pub struct OpenText {
    pub slot: ItemSlot,
    /// The text as upstream sent it so far.
    pub read: String,
    /// The text as sent so far.
    pub sent: String,
    /// True if a piece was removed, not held back.
    pub is_removed: bool,
    /// Type of the events that send it.
    pub delta_name: &'static str,
    pub progress: TextProgress,
}

/// Events of the end of a text that the agent has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextProgress {
    /// The text is not complete yet.
    Open,
    /// The text is complete, its part is not.
    TextDone,
    /// The part is complete.
    PartDone,
}

impl OpenItem {
    /// Opens an item at an index.
    pub fn new(index: u64, upstream: Option<u64>, item: Document) -> Result<Self> {
        Ok(Self {
            index,
            upstream,
            kind: OutputKind::of(&item)?,
            id: item.string(ID)?.unwrap_or_default(),
            item,
            texts: Vec::new(),
            positions: HashMap::new(),
        })
    }

    /// Appends pieces to the text of a slot: the one that upstream sent, and the one that is
    /// sent for it.
    pub fn append(&mut self, slot: ItemSlot, read: &str, sent: &str) {
        if let Some(text) = self.text_mut(slot) {
            text.read.push_str(read);
            text.sent.push_str(sent);
        }
    }

    /// Returns the text of a slot, which begins empty.
    pub fn text_mut(&mut self, slot: ItemSlot) -> Option<&mut OpenText> {
        let end = self.texts.len();
        let position = *self.positions.entry(slot).or_insert(end);
        if position == end {
            let delta_name = match (self.kind, slot) {
                (_, ItemSlot::Summary(_)) => SUMMARY_DELTA,
                (OutputKind::Reasoning, _) => REASONING_DELTA,
                (_, _) => TEXT_DELTA,
            };
            self.texts.push(OpenText {
                slot,
                read: String::new(),
                sent: String::new(),
                is_removed: false,
                delta_name,
                progress: TextProgress::Open,
            });
        }
        self.texts.get_mut(position)
    }

    /// Returns the text of a slot, if it has begun.
    pub fn known_text_mut(&mut self, slot: ItemSlot) -> Option<&mut OpenText> {
        let position = self.positions.get(&slot)?;
        self.texts.get_mut(*position)
    }

    fn text(&self, slot: ItemSlot) -> Option<&OpenText> {
        let position = self.positions.get(&slot)?;
        self.texts.get(*position)
    }

    /// Takes from an event which kind of text a slot holds, and whether it has ended.
    pub fn note(&mut self, event: &StreamEvent) -> Result<()> {
        let is_refusal = match (event.class, event.document.child(PART)?) {
            (EventClass::PartAdded | EventClass::PartDone, Some(part)) => {
                text_field(&part)? == Some("refusal")
            }
            (EventClass::Delta, _) => event.name == REFUSAL_DELTA,
            (EventClass::TextDone(field), _) => field == "refusal",
            _ => return Ok(()),
        };
        let progress = match event.class {
            EventClass::TextDone(_) => TextProgress::TextDone,
            EventClass::PartDone => TextProgress::PartDone,
            _ => TextProgress::Open,
        };
        if let Some(text) = self.text_mut(event.slot()?) {
            text.progress = text.progress.max(progress);
            if is_refusal {
                text.delta_name = REFUSAL_DELTA;
            }
        }
        Ok(())
    }

    /// Returns the text of a slot as sent.
    pub fn sent(&self, slot: ItemSlot) -> &str {
        self.text(slot).map_or("", |text| text.sent.as_str())
    }

    /// Returns whether the text of a slot is sent as upstream sent it, as far as it is sent.
    pub fn is_unedited(&self, slot: ItemSlot) -> bool {
        self.text(slot).is_none_or(OpenText::is_unedited)
    }

    /// Writes the texts as sent into an event that repeats them. Returns whether any differs.
    pub fn write_copies(&self, event: &mut StreamEvent) -> Result<bool> {
        match event.class {
            EventClass::ItemAdded | EventClass::ItemDone => {
                let document = &mut event.document;
                document.edit_child(ITEM, |item| self.write_item(item))?;
            }
            EventClass::TextDone(_) => {
                let sent = self.sent(event.slot()?);
                write_text(&mut event.document, sent)?;
            }
            EventClass::PartAdded | EventClass::PartDone if self.is_of_reasoning(event)? => {
                let block = self.text(event.slot()?).map(OpenText::block);
                event.document.set(PART, &block.unwrap_or_default())?;
            }
            EventClass::PartAdded | EventClass::PartDone => {
                let sent = self.sent(event.slot()?);
                let is_added = event.class == EventClass::PartAdded;
                event
                    .document
                    .edit_child(PART, |part| match text_field(part)? {
                        // A part begins with its first text only.
                        Some(field)
                            if is_added && part.string(&[field])?.as_deref() == Some("") =>
                        {
                            Ok(())
                        }
                        _ => write_text(part, sent),
                    })?;
            }
            _ => (),
        }
        Ok(event.document.is_edited())
    }

    /// Returns whether a part is one of reasoning, though the item is a message. LiteLLM ends a
    /// text with the thoughts in front of it.
    fn is_of_reasoning(&self, event: &StreamEvent) -> Result<bool> {
        let part = event.document.child(PART)?.unwrap_or_default();
        let is_thought = part.string(TYPE)?.as_deref() == Some("reasoning_text");
        Ok(is_thought && self.kind == OutputKind::Message)
    }

    /// Writes the texts as sent into a copy of the item.
    fn write_item(&self, item: &mut Document) -> Result<()> {
        let before = item.clone();
        for (field, slot) in BLOCK_LISTS {
            let mut index = 0;
            item.edit_children(field, |block| {
                let sent = self.sent(slot(index));
                index += 1;
                write_text(block, sent)
            })?;
        }
        write_plain_thoughts(item, &before)
    }

    /// Returns a copy of the item with the texts as sent.
    pub fn copy_of(&self, item: &Document) -> Result<Document> {
        let mut copy = item.clone();
        self.write_item(&mut copy)?;
        Ok(copy)
    }

    /// Returns the complete item, built from what was sent. Reasoning keeps its encrypted
    /// content as far as upstream sent it.
    pub fn complete(&self) -> Result<Document> {
        let mut item = self.item.clone();
        let is_reasoning = self.kind == OutputKind::Reasoning;
        let is_summary = |text: &&OpenText| matches!(text.slot, ItemSlot::Summary(_));
        let (summary, content): (Vec<_>, Vec<_>) = self.texts.iter().partition(is_summary);
        for (field, texts, is_required) in [
            (SUMMARY, summary, is_reasoning),
            (CONTENT, content, !is_reasoning),
        ] {
            if is_required || !texts.is_empty() {
                let blocks: Vec<Value> = texts.into_iter().map(OpenText::block).collect();
                item.set(field, &blocks.into())?;
            }
        }
        let status = if is_reasoning {
            "incomplete"
        } else {
            "completed"
        };
        item.set(STATUS, &json!(status))?;
        Ok(item)
    }

    /// Sends a piece of a text in a synthetic event.
    pub fn send_piece(&self, sender: &mut EventSender, slot: ItemSlot, text: &str) {
        let name = self.text(slot).map_or(TEXT_DELTA, |known| known.delta_name);
        let mut fields = self.fields(slot, "delta", &text.into());
        if name == TEXT_DELTA {
            insert(&mut fields, "logprobs", json!([]));
        }
        sender.send_synthetic(name, fields);
    }

    /// Returns the fields of an event about a text of the item: its place, and another field.
    pub fn fields(&self, slot: ItemSlot, key: &str, value: &Value) -> Value {
        let (place, index) = match slot {
            ItemSlot::Summary(index) => ("summary_index", index),
            ItemSlot::Content(index) => ("content_index", index),
        };
        json!({ "item_id": self.id, "output_index": self.index, place: index, key: value })
    }
}

impl OpenText {
    /// Returns whether the text is sent as upstream sent it, as far as it is sent.
    pub fn is_unedited(&self) -> bool {
        !self.is_removed && self.read.starts_with(&self.sent)
    }

    /// Returns the text as a block of its item.
    pub fn block(&self) -> Value {
        let sent = &self.sent;
        match self.delta_name {
            REFUSAL_DELTA => json!({ "type": "refusal", "refusal": sent }),
            SUMMARY_DELTA => json!({ "type": "summary_text", "text": sent }),
            REASONING_DELTA => json!({ "type": "reasoning_text", "text": sent }),
            _ => {
                json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": sent })
            }
        }
    }

    /// Returns the type of the event that completes its part.
    pub fn part_done_name(&self) -> &'static str {
        match self.delta_name {
            SUMMARY_DELTA => "response.reasoning_summary_part.done",
            _ => "response.content_part.done",
        }
    }

    /// Returns the name of the field that holds the text in its block.
    pub fn field(&self) -> &'static str {
        match self.delta_name {
            REFUSAL_DELTA => "refusal",
            _ => "text",
        }
    }
}

/// Writes a text as sent into a block or an event that repeats it.
fn write_text(block: &mut Document, sent: &str) -> Result<()> {
    let Some(field) = text_field(block)? else {
        return Ok(());
    };
    if block.string(&[field])?.as_deref() != Some(sent) {
        block.set(&[field], &sent.into())?;
        clear_marks(block)?;
    }
    Ok(())
}
