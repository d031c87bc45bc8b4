//! Copies of texts in the events of compatible servers. Hooks see each text once, so that copies
//! are not sent.

use serde_json::json;

use crate::dialect::{
    document::{Document, first_byte, is_set},
    error::Result,
    openai_chat::{
        fields::{CHOICES, DELTA, MESSAGE},
        response::answer::is_blank,
        stream::event::CHUNK_OBJECT,
    },
};

const THINKING_BLOCKS: &[&str] = &["thinking_blocks"];
const PROVIDER_FIELDS: &[&str] = &["provider_specific_fields"];

/// Removes messages that repeat the deltas beside them (Perplexity) or those of earlier events
/// (MiniMax), and blocks of thoughts that repeat others of their delta (LiteLLM). `has_pieces` is
/// true if earlier events have texts or calls.
///
/// # Errors
///
/// Fails for wrong types.
pub fn remove_copies(event: &mut Document, has_pieces: bool) -> Result<()> {
    let mut was_whole = false;
    event.edit_children(CHOICES, |choice| {
        let delta = choice.child(DELTA)?;
        let is_piece = delta.as_ref().is_some_and(|delta| !is_blank(delta));
        if (is_piece || has_pieces) && is_set(choice, MESSAGE)? {
            choice.remove(MESSAGE)?;
            if delta.is_none() {
                choice.set(DELTA, &json!({}))?;
                was_whole = true;
            }
        }
        choice.edit_child(DELTA, |delta| {
            let has_blocks = is_set(delta, THINKING_BLOCKS)?;
            if has_blocks && first_byte(delta, PROVIDER_FIELDS)? == Some(b'{') {
                delta.edit_child(PROVIDER_FIELDS, |fields| fields.remove(THINKING_BLOCKS))?;
            }
            Ok(())
        })
    })?;
    if was_whole {
        event.set(&["object"], &CHUNK_OBJECT.into())?;
    }
    Ok(())
}
