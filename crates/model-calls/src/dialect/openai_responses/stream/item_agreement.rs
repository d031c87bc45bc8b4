//! Agreement of the events of an item that arrives as a whole. Agents may read any of them, and
//! hooks see the complete item.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, first_byte, to_value},
    error::{DialectError, Result},
    openai_responses::{
        fields::{ARGUMENTS, INPUT, ITEM},
        response::item::OutputKind,
        stream::{
            event::{DELTA, EventClass, OBFUSCATION, SEQUENCE_NUMBER, StreamEvent},
            item_events::text_input,
        },
    },
};

/// Fields of events that hold no text: ids, and images with their settings.
const OPAQUE: &[&str] = &[
    "type",
    "item_id",
    "partial_image_b64",
    "background",
    "output_format",
    "quality",
    "size",
];

/// Fields that differ between the beginning and the end of an item.
const CHANGING: &[&str] = &["status", "encrypted_content"];

/// Checks that the pieces of a call's arguments agree with the complete item.
///
/// # Errors
///
/// Fails if they do not: the agent could run another call than hooks see.
pub fn check_pieces(item: &Document, events: &[StreamEvent]) -> Result<()> {
    let OutputKind::Call(_) = OutputKind::of(item)? else {
        return Ok(());
    };
    let mut joined: Option<String> = None;
    let mut complete = None;
    for event in events {
        let document = &event.document;
        match event.name.as_str() {
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let piece = document.string(DELTA)?.unwrap_or_default();
                joined.get_or_insert_default().push_str(&piece);
            }
            "response.function_call_arguments.done" => complete = document.string(ARGUMENTS)?,
            "response.custom_tool_call_input.done" => complete = document.string(INPUT)?,
            _ => (),
        }
    }
    let Some(field) = text_input(item)? else {
        return Ok(());
    };
    let arguments = item.string(&[field])?;
    let mut copies = [joined, complete].into_iter().flatten();
    if copies.any(|copy| Some(&copy) != arguments.as_ref()) {
        return Err(DialectError::Ambiguous("arguments".to_owned()));
    }
    Ok(())
}

/// Returns whether the events of an item hold no text that the complete item does not.
pub fn events_agree(events: &[StreamEvent], item: &Document) -> Result<bool> {
    let complete = to_value(item)?;
    let mut known = strings_of(&complete);
    known.insert("");
    let mut joined: BTreeMap<Bytes, String> = BTreeMap::new();
    for event in events {
        let mut rest = event.document.clone();
        rest.remove(SEQUENCE_NUMBER)?;
        rest.remove(OBFUSCATION)?;
        match event.class {
            EventClass::ItemAdded if !is_part_of(&to_value(&event.item()?)?, &complete) => {
                return Ok(false);
            }
            EventClass::ItemAdded | EventClass::ItemDone => rest.remove(ITEM)?,
            _ => (),
        }
        if first_byte(&rest, DELTA)? == Some(b'"') {
            let piece = rest.string(DELTA)?.unwrap_or_default();
            rest.remove(DELTA)?;
            joined.entry(rest.to_bytes()).or_default().push_str(&piece);
        }
        OPAQUE.iter().try_for_each(|field| rest.remove(&[field]))?;
        let rest = to_value(&rest)?;
        if !strings_of(&rest).is_subset(&known) {
            return Ok(false);
        }
    }
    Ok(joined.values().all(|text| known.contains(text.as_str())))
}

/// Returns all strings in a value but its keys.
pub fn strings_of(value: &Value) -> BTreeSet<&str> {
    let mut strings = BTreeSet::new();
    collect_strings(value, &mut strings);
    strings
}

fn collect_strings<'a>(value: &'a Value, strings: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => drop(strings.insert(text)),
        Value::Array(list) => list
            .iter()
            .for_each(|value| collect_strings(value, strings)),
        Value::Object(fields) => fields
            .values()
            .for_each(|value| collect_strings(value, strings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// Returns whether the beginning of an item holds nothing that the complete item does not.
fn is_part_of(start: &Value, complete: &Value) -> bool {
    match (start, complete) {
        (Value::Null, _) => true,
        (Value::String(text), _) if text.is_empty() => true,
        (Value::Object(start), Value::Object(complete)) => start.iter().all(|(key, value)| {
            let known = complete.get(key).unwrap_or(&Value::Null);
            CHANGING.contains(&key.as_str()) || is_part_of(value, known)
        }),
        (Value::Array(start), Value::Array(complete)) => {
            let mut pairs = start.iter().zip(complete);
            start.len() <= complete.len()
                && pairs.all(|(start, complete)| is_part_of(start, complete))
        }
        (Value::Array(start), _) => start.is_empty(),
        (Value::Object(start), _) => start.is_empty(),
        (Value::Bool(_) | Value::Number(_) | Value::String(_), _) => start == complete,
    }
}
