//! Labels of answers: every object of an answer may have fields that hookgate does not
//! interpret. Policies on texts see them, and remove tokens, which spell texts in pieces.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::labels::{read_labels, write_next_labels};
use crate::dialect::{
    document::{Document, first_byte, read_json},
    error::Result,
    google::fields::{LABELS, LOGPROBS_RESULT},
};

/// Tokens of a text with their probabilities.
const LOGPROBS: &[&str] = &["logprobs"];

/// Acts on an object of an answer. The names are those of the fields that hold no text, or
/// that hooks and policies see otherwise.
pub type ActOnObject<'a> = &'a mut dyn FnMut(&mut Document, &[&str]) -> Result<()>;

/// Calls a function for each object of a body or an event that may have labels. Objects that
/// policies see whole are left out.
pub type VisitObjects = fn(&mut Document, ActOnObject<'_>) -> Result<()>;

/// The labels of a body, or of the events of a chunk.
#[derive(Debug, Default)]
pub struct AnswerLabels {
    /// For each event, the labels of the objects that have any, in the order of the visit.
    events: Vec<Vec<Map<String, Value>>>,
    has_tokens: bool,
}

impl AnswerLabels {
    /// Reads the labels of a body or of one event.
    pub fn of(event: &Document, visit: VisitObjects) -> Result<Self> {
        let mut labels = Self::default();
        let mut objects = Vec::new();
        visit(&mut event.clone(), &mut |object, known| {
            objects.extend(Some(read_labels(object, known)?).filter(|labels| !labels.is_empty()));
            labels.has_tokens |= has_tokens(object)?;
            Ok(())
        })?;
        labels.events.push(objects);
        Ok(labels)
    }

    /// Adds the labels of later events.
    pub fn append(&mut self, later: Self) {
        self.events.extend(later.events);
        self.has_tokens |= later.has_tokens;
    }

    /// Returns the fields of the content form that show the labels; none if there are none.
    pub fn to_fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        if !self.events.iter().all(Vec::is_empty) {
            fields.insert("labels".to_owned(), json!(self.events));
        }
        if self.has_tokens {
            // The tokens themselves stay in the answer.
            fields.insert(LOGPROBS_RESULT.to_owned(), json!({}));
        }
        fields
    }

    /// Reads the labels of an edited answer in the content form.
    pub fn of_form(form: &Document) -> Result<Self> {
        let labels = form.bytes_of(LABELS)?;
        let events = labels.map(|labels| read_json(&labels)).transpose()?;
        Ok(Self {
            events: events.unwrap_or_default(),
            has_tokens: form.has(&[LOGPROBS_RESULT]),
        })
    }

    /// Returns the events of a chunk with its labels.
    pub fn write_all(&self, events: &[Bytes], visit: VisitObjects) -> Result<Vec<Bytes>> {
        let events = events.iter().enumerate().map(|(position, data)| {
            let mut event = Document::from_checked(data.clone())?;
            self.write(position, &mut event, visit)?;
            Ok(event.to_bytes())
        });
        events.collect()
    }

    /// Writes the labels into the event at a position. Fields of which the name was edited are
    /// removed, and tokens that policies removed.
    pub fn write(&self, position: usize, event: &mut Document, visit: VisitObjects) -> Result<()> {
        let mut objects = self.events.get(position).into_iter().flatten();
        visit(event, &mut |object, known| {
            write_next_labels(object, known, &mut objects)?;
            if self.has_tokens || !has_tokens(object)? {
                return Ok(());
            }
            let is_list = first_byte(object, LOGPROBS)? == Some(b'[');
            let empty = if is_list { json!([]) } else { Value::Null };
            object.set(LOGPROBS, &empty)
        })
    }
}

/// Returns whether an object holds tokens.
fn has_tokens(object: &Document) -> Result<bool> {
    let tokens = object.bytes_of(LOGPROBS)?;
    Ok(tokens.is_some_and(|tokens| *tokens != *b"null" && *tokens != *b"[]"))
}
