//! A choice of an event with its edits: texts, and the details of thoughts.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, write_array},
    error::Result,
    openai_chat::{
        fields::{DELTA, LOGPROBS},
        message_parts::EditedParts,
        response::answer::THOUGHT_DETAILS,
        stream::{
            event::EventChoice,
            last_chunk::{parts_of, text_of_thoughts, thought_name},
            waiting_details::{ThoughtDetail, WaitingDetails},
        },
    },
};

/// Returns a choice of an event with the edits of its candidates.
pub fn write_delta(
    choice: &EventChoice,
    before: &[Document],
    after: &[Document],
    waiting: &mut WaitingDetails,
) -> Result<Document> {
    let (old, new) = (parts_of(before)?, parts_of(after)?);
    let answer = EditedParts::new(&choice.texts, 0, &old, &new);
    let mut delta = choice.delta.clone();
    let mut document = choice.document.clone();
    if answer.write_texts(&mut delta, "", waiting.name)? && document.has(LOGPROBS) {
        document.set(LOGPROBS, &Value::Null)?;
    }
    write_details(choice, &mut delta, &answer, waiting)?;
    if delta.is_edited() {
        document.set_child(DELTA, &delta)?;
    }
    Ok(document)
}

/// Writes the details of thoughts whose texts are sent now.
fn write_details(
    choice: &EventChoice,
    delta: &mut Document,
    answer: &EditedParts<'_>,
    waiting: &mut WaitingDetails,
) -> Result<()> {
    waiting.name = thought_name(&choice.texts).or(waiting.name);
    let known = ThoughtDetail::read_all(&choice.delta)?;
    let read = text_of_thoughts(&choice.texts);
    let sent = waiting.pass(&known, &read, &answer.thought()?);
    for list in THOUGHT_DETAILS {
        let of_list = |details: &[ThoughtDetail]| -> Vec<Bytes> {
            let details = details.iter().filter(|detail| detail.list == list);
            details.map(|detail| detail.json.clone()).collect()
        };
        let (known, sent) = (of_list(&known), of_list(&sent));
        if sent.is_empty() && !known.is_empty() {
            delta.remove(&[list])?;
        } else if sent != known || !sent.is_empty() && !delta.has(&[list]) {
            delta.set_bytes(&[list], write_array(sent))?;
        }
    }
    Ok(())
}
