//! Whole answers: the content form of a body, and edits spliced back into it.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::{AnswerLabels, parts_in},
    document::{Document, add_field, integer},
    error::{DialectError, Result},
    google::fields::CANDIDATES,
    openai_chat::{
        fields::{
            CHOICES, CONTENT, DELTA, ERROR, FINISH_REASON, INDEX, LOGPROBS, MESSAGE, PARAGRAPH,
            TOOL_CALLS,
        },
        message_parts::{EditedParts, PlacedPart, has_refusal},
        response::{
            answer::{is_blank, read_message, refuse_calls_beside_message},
            answer_objects::visit_answer,
            envelope::{candidate, numbered_parts, read_envelope, write_usage},
            finish_reason::{final_reason, read_reason},
            preceding::{Thoughts, add_preceding},
        },
    },
};

const ANNOTATIONS: &[&str] = &["annotations"];

/// Returns the content form of a body.
///
/// # Errors
///
/// Fails for wrong types, since hooks could not see the text.
pub fn read_whole(body: &Document) -> Result<Value> {
    let choices = body.children(CHOICES)?.unwrap_or_default();
    let mut candidates = Vec::with_capacity(choices.len());
    for (position, choice) in choices.iter().enumerate() {
        candidates.push(Choice::read(position, choice)?.to_candidate()?);
    }
    let mut response = read_envelope(body)?;
    response.insert("candidates".to_owned(), candidates.into());
    let error = body.get(ERROR)?.filter(Value::is_object);
    add_field(&mut response, "error", error);
    response.extend(AnswerLabels::of(body, visit_answer)?.to_fields());
    Ok(Value::Object(response))
}

/// A choice of a whole answer.
struct Choice {
    index: u64,
    message: Document,
    parts: Vec<PlacedPart>,
    finish_reason: Option<String>,
}

impl Choice {
    fn read(position: usize, choice: &Document) -> Result<Self> {
        refuse_calls_beside_message(choice)?;
        if choice.child(DELTA)?.is_some_and(|piece| !is_blank(&piece)) {
            // Clients read the message or the piece.
            return Err(DialectError::Ambiguous("delta".to_owned()));
        }
        let message = choice.child(MESSAGE)?.unwrap_or_default();
        let index = integer(choice, INDEX)?;
        Ok(Self {
            index: index.unwrap_or(position as u64),
            parts: read_message(&message)?,
            message,
            finish_reason: choice.string(FINISH_REASON)?,
        })
    }

    /// Returns the finish reason of the content form. A refusal is shown as one.
    fn reason(&self) -> Option<&'static str> {
        let reason = self.finish_reason.as_deref().map(read_reason);
        reason.map(|reason| {
            if has_refusal(&self.parts) {
                "SAFETY"
            } else {
                reason
            }
        })
    }

    fn to_candidate(&self) -> Result<Value> {
        let mut parts = numbered_parts(&self.parts);
        let calls = self.message.children(TOOL_CALLS)?.unwrap_or_default();
        let mut thoughts = Thoughts::default();
        thoughts.add(&self.message)?;
        add_preceding(&mut parts, &calls, &thoughts)?;
        Ok(candidate(self.index, &parts, self.reason()))
    }
}

/// Returns the bytes of a body with the edits of the content form.
pub fn close_whole(body: Bytes, before: &Document, after: &Document) -> Result<Bytes> {
    let mut body = Document::from_checked(body)?;
    AnswerLabels::of_form(after)?.write(0, &mut body, visit_answer)?;
    let old = before.children(CANDIDATES)?.unwrap_or_default();
    let new = after.children(CANDIDATES)?.unwrap_or_default();
    let mut added: HashMap<u64, Vec<Document>> = HashMap::new();
    for candidate in new.iter().skip(old.len()) {
        let index = integer(candidate, INDEX)?;
        let parts = added.entry(index.unwrap_or_default()).or_default();
        parts.extend(parts_in(candidate, CONTENT)?);
    }
    let mut choices = body.children(CHOICES)?.unwrap_or_default();
    for (position, choice) in choices.iter_mut().enumerate() {
        let read = Choice::read(position, choice)?;
        let (Some(before), Some(after)) = (old.get(position), new.get(position)) else {
            continue;
        };
        let added = added.remove(&read.index).unwrap_or_default();
        write_choice(choice, &read, before, after, added)?;
    }
    if choices.iter().any(Document::is_edited) {
        body.set_children(CHOICES, &choices)?;
    }
    write_usage(&mut body, before, after)?;
    Ok(body.to_bytes())
}

fn write_choice(
    choice: &mut Document,
    read: &Choice,
    before: &Document,
    after: &Document,
    added: Vec<Document>,
) -> Result<()> {
    let (old, mut new) = (parts_in(before, CONTENT)?, parts_in(after, CONTENT)?);
    new.extend(added);
    let answer = EditedParts::new(&read.parts, 0, &old, &new);
    let mut message = read.message.clone();
    let has_new_text = answer.write_texts(&mut message, PARAGRAPH, None)?;
    let calls = answer.write_calls(&mut message)?;
    let annotations = message.bytes_of(ANNOTATIONS)?;
    if has_new_text && annotations.is_some_and(|list| list.starts_with(b"[")) {
        // They refer to places in the text.
        message.set(ANNOTATIONS, &json!([]))?;
    }
    if message.is_edited() {
        choice.set_child(MESSAGE, &message)?;
    }
    // Tokens of the text with their probabilities.
    if has_new_text && choice.has(LOGPROBS) {
        choice.set(LOGPROBS, &Value::Null)?;
    }
    let reason = after.string(&["finishReason"])?;
    if let (Some(known), Some(after)) = (&read.finish_reason, reason) {
        let before = read.reason().unwrap_or_default();
        let reason = final_reason(known, before, &after, calls > 0);
        if reason != known {
            choice.set(FINISH_REASON, &reason.into())?;
        }
    }
    Ok(())
}
