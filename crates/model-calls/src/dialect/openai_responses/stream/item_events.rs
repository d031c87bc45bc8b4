//! Events of a complete item: as upstream sent them, with other arguments, or synthetic.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, first_byte, insert, read_json, to_document},
    error::Result,
    google::part::Part,
    openai_responses::{
        calls::ToolCallKind,
        fields::{ARGUMENTS, ID, INPUT, ITEM, STATUS, TYPE, clear_marks},
        response::item::{BLOCK_LISTS, ItemSlot, OutputKind, item_parts, text_field},
        stream::{
            event::{DELTA, EventClass, OBFUSCATION, StreamEvent},
            sender::EventSender,
        },
        visible_fields::write_item,
    },
};

/// Returns the item of a chunk with the edits of its part; `None` if there are none.
pub fn edited_item(item: &Document, part: &Part) -> Result<Option<Document>> {
    let Some(before) = item_parts(item)?.into_iter().next() else {
        return Ok(None);
    };
    let before = to_document(&before)?;
    let mut edited = item.clone();
    let call = OutputKind::of(item)?.call();
    write_item(&mut edited, call, &before, &part.document)?;
    Ok(edited.is_edited().then_some(edited))
}

/// Sends the events of an item that was edited. Pieces of its arguments become one piece;
/// events about its progress are omitted.
pub fn send_edited(
    sender: &mut EventSender,
    events: &mut [StreamEvent],
    index: u64,
    edited: &Document,
) -> Result<()> {
    let text = match text_input(edited)? {
        Some(field) => Some(edited.string(&[field])?.unwrap_or_default()),
        None => None,
    };
    let mut is_piece_sent = false;
    for event in events {
        match event.class {
            EventClass::ItemAdded => {
                event.document.edit_child(ITEM, |item| {
                    write_start(item, edited);
                    Ok(())
                })?;
            }
            EventClass::ItemDone => event.document.set_child(ITEM, edited)?,
            _ => match &text {
                Some(text) if event.document.has(DELTA) && !is_piece_sent => {
                    is_piece_sent = true;
                    event.document.set(DELTA, &text.as_str().into())?;
                    event.document.remove(OBFUSCATION)?;
                }
                Some(text) if event.name.rsplit('.').next() == Some("done") => {
                    let field = if event.document.has(INPUT) {
                        INPUT
                    } else {
                        ARGUMENTS
                    };
                    event.document.set(field, &text.as_str().into())?;
                }
                Some(_) | None => continue,
            },
        }
        sender.send(event, Some(index))?;
    }
    Ok(())
}

/// Returns the field of a call that holds its arguments, if they are a text.
pub fn text_input(item: &Document) -> Result<Option<&'static str>> {
    Ok(match OutputKind::of(item)? {
        OutputKind::Call(ToolCallKind::Function) => Some("arguments"),
        OutputKind::Call(ToolCallKind::Custom) => Some("input"),
        _ => None,
    })
}

/// Writes the edits into the beginning of an item. Arguments that it does not hold yet
/// follow later.
fn write_start(start: &mut Document, edited: &Document) {
    let edited: HashMap<_, _> = edited.fields().collect();
    let is_pending = |value: &Bytes| **value == *b"\"\"";
    let fields = start.clone();
    let fields = fields.fields();
    let fields = fields.filter(|(key, value)| key != "status" && !is_pending(value));
    start.write_fields(fields.filter_map(|(key, known)| {
        let value = edited.get(&*key);
        (value != Some(&known)).then(|| (key, value.cloned()))
    }));
}

/// Sends the events of an item that upstream sent in its last event only, or that is synthetic.
pub fn send_complete(sender: &mut EventSender, index: u64, item: &Document) -> Result<()> {
    for event in complete_events(index, item)? {
        let mut fields = event.place;
        insert(&mut fields, event.field, read_json::<Value>(&event.value)?);
        sender.send_synthetic(&event.name, fields);
    }
    Ok(())
}

/// An event of a complete item.
#[derive(Debug)]
pub struct ItemEvent {
    pub name: String,
    /// Fields with the place of the item, or of a text in it.
    pub place: Value,
    /// Name of the field that holds `value`.
    pub field: &'static str,
    pub value: Bytes,
}

impl ItemEvent {
    fn new(name: &str, place: &Value, field: &'static str, value: Bytes) -> Self {
        Self {
            name: format!("response.{name}"),
            place: place.clone(),
            field,
            value,
        }
    }
}

/// Returns the events of a complete item. Clients expect texts and arguments in pieces.
pub fn complete_events(index: u64, item: &Document) -> Result<Vec<ItemEvent>> {
    let place = json!({ "output_index": index });
    let mut inner = place.clone();
    if let Some(id) = item.string(ID)? {
        insert(&mut inner, "item_id", id);
    }
    let start = beginning_of(item)?.to_bytes();
    let mut events = vec![ItemEvent::new("output_item.added", &place, "item", start)];
    let kind = OutputKind::of(item)?;
    if kind.is_streamed() {
        for (field, slot) in BLOCK_LISTS {
            for (position, block) in (0..).zip(item.children(field)?.unwrap_or_default()) {
                events.extend(block_events(kind, slot(position), &inner, &block)?);
            }
        }
    }
    if let Some(field) = text_input(item)?
        && first_byte(item, &[field])? == Some(b'"')
    {
        let name = format!("{}_{field}", item.string(TYPE)?.unwrap_or_default());
        let text = item.bytes_of(&[field])?.unwrap_or_default();
        events.extend(text_events(&name, &inner, field, &text));
    }
    let done = item.to_bytes();
    events.push(ItemEvent::new("output_item.done", &place, "item", done));
    Ok(events)
}

/// Returns the events of a block of a message or of reasoning.
fn block_events(
    kind: OutputKind,
    slot: ItemSlot,
    item: &Value,
    block: &Document,
) -> Result<Vec<ItemEvent>> {
    let field = text_field(block)?;
    let (part, text) = match (slot, kind, field) {
        (ItemSlot::Summary(_), ..) => ("reasoning_summary_part", "reasoning_summary_text"),
        (_, OutputKind::Reasoning, _) => ("content_part", "reasoning_text"),
        (_, _, Some("refusal")) => ("content_part", "refusal"),
        _ => ("content_part", "output_text"),
    };
    let mut place = item.clone();
    match slot {
        ItemSlot::Summary(position) => insert(&mut place, "summary_index", position),
        ItemSlot::Content(position) => insert(&mut place, "content_index", position),
    }
    let mut start = block.clone();
    if let Some(field) = field {
        start.set(&[field], &json!(""))?;
        clear_marks(&mut start)?;
    }
    let added = format!("{part}.added");
    let mut events = vec![ItemEvent::new(&added, &place, "part", start.to_bytes())];
    if let Some(field) = field {
        let value = block.bytes_of(&[field])?.unwrap_or_default();
        let mut texts = place.clone();
        if text == "output_text" {
            insert(&mut texts, "logprobs", json!([]));
        }
        let field = if text == "refusal" { "refusal" } else { "text" };
        events.extend(text_events(text, &texts, field, &value));
    }
    let done = format!("{part}.done");
    events.push(ItemEvent::new(&done, &place, "part", block.to_bytes()));
    Ok(events)
}

/// Returns the events of a text: one piece, and its end, which has the text in `field`.
fn text_events(name: &str, place: &Value, field: &'static str, text: &Bytes) -> [ItemEvent; 2] {
    [("delta", "delta"), ("done", field)]
        .map(|(end, field)| ItemEvent::new(&format!("{name}.{end}"), place, field, text.clone()))
}

/// Returns a complete item as it begins: without its texts and the arguments that follow.
pub fn beginning_of(item: &Document) -> Result<Document> {
    let mut start = item.clone();
    if let Some(field) = text_input(item)? {
        start.set(&[field], &json!(""))?;
    }
    if OutputKind::of(item)?.is_streamed() {
        for (field, _) in BLOCK_LISTS {
            if start.has(field) {
                start.set(field, &json!([]))?;
            }
        }
    }
    if first_byte(&start, STATUS)?.is_some() {
        start.set(STATUS, &json!("in_progress"))?;
    }
    Ok(start)
}
