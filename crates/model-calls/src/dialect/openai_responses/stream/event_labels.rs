//! The objects of events that may have fields that hookgate does not interpret: annotations,
//! errors and others.

use crate::dialect::{
    content_form::ActOnObject,
    document::Document,
    error::{DialectError, Result, field_error},
    openai_responses::{
        fields::{ITEM, OUTPUT},
        response::{
            item::{BLOCK_LISTS, OutputKind, TEXT_FIELDS},
            response_labels::{visit_block, visit_item, visit_response},
        },
        stream::{
            event::{EVENT_FIELDS, EventClass, PART, RESPONSE, SOUND_DELTA, StreamEvent, classify},
            item_agreement::strings_of,
        },
        visible_fields::visible_fields,
    },
};

/// Visits the objects of an event.
pub fn visit_event(event: &mut Document, act: ActOnObject<'_>) -> Result<()> {
    let (name, class) = classify(event)?;
    let own = match class {
        EventClass::Other if name == SOUND_DELTA => "delta",
        EventClass::Delta => "delta",
        EventClass::TextDone(field) => field,
        EventClass::PartAdded | EventClass::PartDone => {
            event.edit_child(PART, |part| visit_block(part, act))?;
            "part"
        }
        EventClass::ItemAdded | EventClass::ItemDone => {
            event.edit_child(ITEM, |item| visit_item(item, act))?;
            "item"
        }
        EventClass::Created | EventClass::Progress | EventClass::Ended => {
            event.edit_child(RESPONSE, |response| visit_response(response, act))?;
            "response"
        }
        EventClass::Failed | EventClass::Other => "type",
    };
    act(event, &[EVENT_FIELDS, &[own]].concat())
}

/// Checks the blocks of an event.
///
/// # Errors
///
/// Fails for a block with several texts, of which clients read one, and for a block that is
/// no text and whose strings hooks would not see.
pub fn check_blocks(event: &StreamEvent) -> Result<()> {
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

/// Returns the blocks of the part and of messages and reasoning in an event.
fn blocks_of(event: &StreamEvent) -> Result<Vec<Document>> {
    let items = match event.class {
        EventClass::PartAdded | EventClass::PartDone => {
            return Ok(event.document.child(PART)?.into_iter().collect());
        }
        EventClass::ItemAdded | EventClass::ItemDone => vec![event.item()?],
        EventClass::Ended => {
            let response = event.document.child(RESPONSE)?.unwrap_or_default();
            response.children(OUTPUT)?.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let mut blocks = Vec::new();
    for item in items {
        if OutputKind::of(&item)?.is_streamed() {
            for (field, _) in BLOCK_LISTS {
                blocks.extend(item.children(field)?.unwrap_or_default());
            }
        }
    }
    Ok(blocks)
}
