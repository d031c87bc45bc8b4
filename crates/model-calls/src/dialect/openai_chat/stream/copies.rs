//! Copies of texts in the events of compatible servers. Hooks see each text once, so that copies
//! are not sent.

use serde_json::json;

use crate::dialect::{
    document::{Document, first_byte, integer, is_set},
    error::Result,
    openai_chat::{
        fields::{CHOICES, DELTA, INDEX, MESSAGE},
        response::answer::is_blank,
        stream::event::CHUNK_OBJECT,
    },
};

const THINKING_BLOCKS: &[&str] = &["thinking_blocks"];
const PROVIDER_FIELDS: &[&str] = &["provider_specific_fields"];

/// Removes messages that repeat the deltas beside them (Perplexity) or those of earlier events
/// (MiniMax), and blocks of thoughts that repeat others of their delta (LiteLLM). `is_repeated`
/// returns whether a message may repeat the pieces of a choice.
///
/// # Errors
///
/// Fails for wrong types.
pub fn remove_copies(
    event: &mut Document,
    is_repeated: impl Fn(u64, &Document) -> Result<bool>,
) -> Result<()> {
    let mut was_whole = false;
    event.edit_children(CHOICES, |choice| {
        let delta = choice.child(DELTA)?;
        let is_piece = delta.as_ref().is_some_and(|delta| !is_blank(delta));
        let number = integer(choice, INDEX)?.unwrap_or(0);
        let message = choice.child(MESSAGE)?;
        if let Some(message) = message
            && (is_piece || is_repeated(number, &message)?)
        {
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
