//! Events of a complete item: as upstream sent them, with other arguments, synthetic or.

use bytes::BytesMut;
use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, first_byte, to_document, to_value},
    error::Result,
    google::part::Part,
    openai_responses::{
        calls::ToolCallKind,
        fields::{ARGUMENTS, ID, INPUT, ITEM, STATUS, TYPE},
        response::item::{BLOCK_LISTS, OutputKind, item_parts},
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
    out: &mut BytesMut,
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
                event
                    .document
                    .edit_child(ITEM, |item| write_start(item, edited))?;
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
        sender.send(out, event, Some(index))?;
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
fn write_start(start: &mut Document, edited: &Document) -> Result<()> {
    for (key, _) in start.clone().fields() {
        let field: &[&str] = &[&*key];
        let text = start.string(field);
        let is_pending = text.is_ok_and(|text| text.as_deref() == Some(""));
        if key == "status" || is_pending {
            continue;
        }
        match edited.bytes_of(field)? {
            Some(value) if start.bytes_of(field)?.as_ref() != Some(&value) => {
                start.set_bytes(field, value)?;
            }
            Some(_) => (),
            None => start.remove(field)?,
        }
    }
    Ok(())
}

/// Sends the events of an item that upstream sent in its last event only, or that is synthetic.
pub fn send_complete(
    sender: &mut EventSender,
    out: &mut BytesMut,
    index: u64,
    item: &Document,
) -> Result<()> {
    let (start, field) = (beginning_of(item)?, text_input(item)?);
    let with_item = |item: &Document| -> Result<Value> {
        Ok(json!({ "output_index": index, "item": to_value(item)? }))
    };
    sender.send_synthetic(out, "response.output_item.added", with_item(&start)?);
    if let Some(field) = field {
        let text = item.string(&[field])?.unwrap_or_default();
        let id = item.string(ID)?;
        let name = format!(
            "response.{}_{field}",
            item.string(TYPE)?.unwrap_or_default()
        );
        let delta = json!({ "item_id": id, "output_index": index, "delta": text });
        sender.send_synthetic(out, &format!("{name}.delta"), delta);
        let done = json!({ "item_id": id, "output_index": index, field: text });
        sender.send_synthetic(out, &format!("{name}.done"), done);
    }
    sender.send_synthetic(out, "response.output_item.done", with_item(item)?);
    Ok(())
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
