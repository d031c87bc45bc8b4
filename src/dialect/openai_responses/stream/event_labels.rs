//! Texts of events beside those of the model: annotations, errors, and fields that hookgate does
//! not interpret. Policies on texts see them as labels.

use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::{LABELS, read_labels, remove_labels},
    document::Document,
    error::{DialectError, field_error},
    openai_responses::{
        chunk_view::ChunkView,
        fields::{ITEM, OUTPUT, first_byte},
        response::item::{BLOCK_LISTS, OutputKind, text_field},
        stream::{
            event::{EVENT_FIELDS, EventClass, PART, RESPONSE, StreamEvent},
            item_agreement::strings_of,
        },
        visible_fields::visible_fields,
    },
};

/// Fields of messages and reasoning that hold no text, or that hooks see otherwise.
const MESSAGE_FIELDS: &[&str] = &[
    "content",
    "encrypted_content",
    "id",
    "phase",
    "role",
    "status",
    "summary",
    "type",
];

/// Fields of calls that hold no text, beside their arguments.
const CALL_FIELDS: &[&str] = &[
    "call_id",
    "execution",
    "id",
    "name",
    "namespace",
    "pending_safety_checks",
    "status",
    "type",
];

/// Fields of a block that may hold its text.
const TEXT_FIELDS: [&str; 3] = ["text", "refusal", "transcript"];

/// Fields of blocks that hold no text, or that hooks see otherwise.
const BLOCK_FIELDS: &[&str] = &["data", "logprobs", "refusal", "text", "transcript", "type"];

/// Label of the fields of items and blocks.
const INNER_FIELDS: &str = "innerFields";

/// Label of the error in a response object.
const RESPONSE_ERROR: &str = "responseError";
const ERROR: &[&str] = &["error"];

/// Adds the labels of an event to its chunk.
pub fn add_labels(form: &mut Value, event: &StreamEvent) -> Result<(), DialectError> {
    let labels = labels_of(event)?;
    if let (false, Some(fields)) = (labels.is_empty(), form.as_object_mut()) {
        fields.extend(LABELS.iter().map(|key| ((*key).to_owned(), json!(labels))));
    }
    Ok(())
}

/// Writes the edited labels of a chunk into its event. Fields of items and blocks are removed
/// if any is edited.
pub fn write_labels(event: &mut StreamEvent, view: &ChunkView) -> Result<(), DialectError> {
    let Some(after) = view.labels.as_ref().filter(|_| view.is_edited) else {
        return Ok(());
    };
    for (key, before) in labels_of(event)? {
        let new = after.get(&[&key])?;
        if new.as_ref() == Some(&before) {
            continue;
        }
        let document = &mut event.document;
        match key.as_str() {
            INNER_FIELDS => {
                document.edit_child(PART, strip_block)?;
                document.edit_child(ITEM, strip_item)?;
                document.edit_child(RESPONSE, |response| {
                    response.edit_children(OUTPUT, strip_item)
                })?;
            }
            RESPONSE_ERROR => {
                let new = new.unwrap_or_default();
                document.edit_child(RESPONSE, |response| response.set(ERROR, &new))?;
            }
            key => match new {
                Some(new) => document.set(&[key], &new)?,
                // Its name was edited.
                None => document.remove(&[key])?,
            },
        }
    }
    Ok(())
}

/// Checks the blocks of an event.
///
/// # Errors
///
/// Fails for a block with several texts, of which clients read one, and for a block that is
/// no text and whose strings hooks would not see.
pub fn check_blocks(event: &StreamEvent) -> Result<(), DialectError> {
    for block in blocks_of(event)? {
        let mut texts = 0;
        for field in TEXT_FIELDS {
            texts += usize::from(block.string(&[field])?.is_some());
        }
        if texts > 1 {
            return Err(DialectError::Ambiguous("text".to_owned()));
        }
        if texts == 0 && !strings_of(&visible_fields(&block)?).is_empty() {
            return Err(field_error("content", "a text or a refusal"));
        }
    }
    Ok(())
}

fn labels_of(event: &StreamEvent) -> Result<Map<String, Value>, DialectError> {
    let own = match (event.class, event.name.as_str()) {
        // Encoded sound, no text.
        (EventClass::Delta, _) | (EventClass::Other, "response.audio.delta") => "delta",
        (EventClass::TextDone(field), _) => field,
        (EventClass::PartAdded | EventClass::PartDone, _) => "part",
        (EventClass::ItemAdded | EventClass::ItemDone, _) => "item",
        (EventClass::Created | EventClass::Progress | EventClass::Ended, _) => "response",
        (EventClass::Failed | EventClass::Other, _) => "type",
    };
    let mut labels = read_labels(&event.document, &[EVENT_FIELDS, &[own]].concat())?;
    let mut inner = Vec::new();
    for item in items_of(event)? {
        inner.push(other_fields(&item)?);
    }
    for block in blocks_of(event)? {
        inner.push(read_labels(&block, BLOCK_FIELDS)?);
    }
    inner.retain(|fields| !fields.is_empty());
    if !inner.is_empty() {
        labels.insert(INNER_FIELDS.to_owned(), json!(inner));
    }
    if event.class == EventClass::Ended
        && let Some(response) = event.document.child(RESPONSE)?
        && first_byte(&response, ERROR)?.is_some()
    {
        let error = response.get(ERROR)?.unwrap_or_default();
        labels.insert(RESPONSE_ERROR.to_owned(), error);
    }
    Ok(labels)
}

fn items_of(event: &StreamEvent) -> Result<Vec<Document>, DialectError> {
    match event.class {
        EventClass::ItemAdded | EventClass::ItemDone => Ok(vec![event.item()?]),
        EventClass::Ended => match event.document.child(RESPONSE)? {
            Some(response) => Ok(response.children(OUTPUT)?.unwrap_or_default()),
            None => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}

/// Returns the blocks of the part and of messages and reasoning in an event.
fn blocks_of(event: &StreamEvent) -> Result<Vec<Document>, DialectError> {
    if matches!(event.class, EventClass::PartAdded | EventClass::PartDone) {
        return Ok(event.document.child(PART)?.into_iter().collect());
    }
    let mut blocks = Vec::new();
    for item in items_of(event)? {
        if OutputKind::of(&item)?.is_streamed() {
            for (field, _) in BLOCK_LISTS {
                blocks.extend(item.children(field)?.unwrap_or_default());
            }
        }
    }
    Ok(blocks)
}

/// Removes fields of an item that hookgate does not interpret.
fn strip_item(item: &mut Document) -> Result<(), DialectError> {
    let others = other_fields(item)?;
    others.keys().try_for_each(|key| item.remove(&[key]))?;
    if OutputKind::of(item)?.is_streamed() {
        for (field, _) in BLOCK_LISTS {
            item.edit_children(field, |block| match text_field(block)? {
                Some(_) => strip_block(block),
                None => Ok(()),
            })?;
        }
    }
    Ok(())
}

/// Removes fields of a block that hookgate does not interpret. Clients require the list of
/// annotations.
fn strip_block(block: &mut Document) -> Result<(), DialectError> {
    let has_annotations = block.has(&["annotations"]);
    remove_labels(block, BLOCK_FIELDS)?;
    if has_annotations {
        block.set(&["annotations"], &json!([]))?;
    }
    Ok(())
}

/// Returns the fields of an item that hookgate does not interpret. Of items other than messages,
/// reasoning and calls, hooks see all fields.
fn other_fields(item: &Document) -> Result<Map<String, Value>, DialectError> {
    match OutputKind::of(item)? {
        OutputKind::Message | OutputKind::Reasoning => read_labels(item, MESSAGE_FIELDS),
        OutputKind::Call(kind) => read_labels(item, &[CALL_FIELDS, kind.inputs()].concat()),
        OutputKind::Other => Ok(Map::new()),
    }
}
